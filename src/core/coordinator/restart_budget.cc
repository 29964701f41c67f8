#include "core/coordinator/restart_budget.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace regroup::core::coordinator {

using rendezvous::NodeId;

namespace {

// A node can claim any number; this many fit the int that workers get.
constexpr std::int64_t kMostRestarts = 1'000'000'000;

}  // namespace

void RestartBudget::admit(const NodeId& node, std::int64_t max_restarts) {
  own_[node].max_restarts = max_restarts;
}

void RestartBudget::forget(const NodeId& node) { own_.erase(node); }

void RestartBudget::recall(const NodeId& node, std::int64_t told) {
  const bool is_limited = rules_.restart_window == Duration{} && !rules_.per_node;
  raise(node, std::min(told, is_limited ? rules_.max_restarts : kMostRestarts));
}

void RestartBudget::resume(const NodeId& node, std::int64_t restart_count) {
  resumed_ = std::min(restart_count, kMostRestarts);
  raise(node, *resumed_);
}

void RestartBudget::raise(const NodeId& node, std::int64_t restarts) {
  restarts_ = std::max(restarts_, restarts);
  Own& own = own_[node];
  own.restarts = std::max(own.restarts, restarts);
}

RestartBudget::Decision RestartBudget::on_failure(const Culprit& culprit, std::int64_t exit_code,
                                                  Instant now) {
  if (resumed_ && restarts_ > *resumed_ && !rules_.per_node) return {.restart = true};
  Decision decision = may_restart(culprit.node, exit_code, now);
  if (!decision.restart) return decision;
  ++restarts_;
  ++own_[culprit.node].restarts;
  if (rules_.restart_window > Duration{}) within_window_.push_back(now);
  if (!culprit.name.empty()) ++strikes_[culprit.name];
  return decision;
}

RestartBudget::Decision RestartBudget::may_restart(const NodeId& node, std::int64_t exit_code,
                                                   Instant now) {
  const auto& codes = rules_.no_restart_codes;
  if (std::find(codes.begin(), codes.end(), exit_code) != codes.end())
    return {.restart = false,
            .note = fmt::format(
                "exit code {} is one that is not started again (--no-restart-codes)", exit_code)};
  const bool is_quick = now - round_started_ <= rules_.crash_loop_time;
  quick_failures_ = is_quick ? quick_failures_ + 1 : 0;
  if (rules_.crash_loop > 0 && quick_failures_ >= rules_.crash_loop)
    return {.restart = false,
            .note = fmt::format(
                "{} times in a row the workers failed right after their start (--crash-loop)",
                quick_failures_)};
  if (rules_.per_node) {
    const Own& own = own_[node];
    return {.restart = own.restarts < own.max_restarts};
  }
  if (rules_.restart_window == Duration{}) return {.restart = restarts_ < rules_.max_restarts};
  while (!within_window_.empty() && now - within_window_.front() > rules_.restart_window)
    within_window_.pop_front();
  return {.restart = static_cast<std::int64_t>(within_window_.size()) < rules_.max_restarts};
}

RestartBudget::Decision RestartBudget::on_members_changed() {
  if (!rules_.max_membership_changes || ++member_changes_ <= *rules_.max_membership_changes)
    return {.restart = true};
  return {.restart = false,
          .note = fmt::format("members have changed more than {} times (--max-membership-changes)",
                              *rules_.max_membership_changes)};
}

std::string RestartBudget::why_barred(const std::string& name) const {
  const auto found = strikes_.find(name);
  if (rules_.node_strikes == 0 || found == strikes_.end() || found->second < rules_.node_strikes)
    return "";
  return fmt::format("{} was the first to fail in {} and is not let in again (--node-strikes)",
                     name, count_of(found->second, "round"));
}

std::int64_t RestartBudget::restart_count(const NodeId& node) const {
  if (!rules_.per_node) return restarts_;
  const auto found = own_.find(node);
  return found == own_.end() ? 0 : found->second.restarts;
}

}  // namespace regroup::core::coordinator
