// What must be true when a round is stopped: its verdict, its reason, and what it costs.
#include <fmt/core.h>

#include <algorithm>

#include "sim/session/session_invariants.h"
#include "sim/world/trace.h"

namespace regroup::sim {

using namespace core::coordinator;
using core::rendezvous::NodeId;

namespace {

constexpr std::string_view kDropped = "this node was dropped from the round";

bool is_end(const Stop& stop) {
  return stop.why == Stop::Why::RunFailed || stop.why == Stop::Why::Closed;
}

}  // namespace

void SessionInvariants::told_stop(const NodeId& id, const Stop& stop, Instant now) {
  const Known& known = known_[id];
  // A coordinator that was started again and then ended the run need not have heard of all of them.
  if (stop.restart_count < known.restarts && !is_end(stop))
    violated(fmt::format("{} is told of {} restarts, and knew of {}", short_name(id),
                         stop.restart_count, known.restarts));
  check_verdict(stop);
  if (running_ == stop.round && stop.text == kDropped && !lost_.contains(id) &&
      !stopped_.contains(stop.round) && !is_broken_without(id, stop.round))
    violated(fmt::format("{} has come back in time, and may not run on in {}", short_name(id),
                         round_text(stop.round)));
  // A run that was closed while others ran also fails when one of them is lost: without a verdict.
  const auto earlier = stopped_.find(stop.round);
  const bool was_closed = earlier != stopped_.end() && earlier->second.why == Stop::Why::Closed;
  const bool has_verdict = stop.why == Stop::Why::Failure || stop.why == Stop::Why::RunFailed;
  if (has_verdict != stop.verdict.has_value() && stop.why != Stop::Why::RunFailed)
    violated(fmt::format("{} was stopped with the wrong verdict: {}", round_text(stop.round),
                         stop.text));
  const auto first = stopped_.try_emplace(stop.round, stop).first;
  check_budget(stop, now);
  // A node that was dropped alone is told so; the reason is looked at above.
  if (stop.why == Stop::Why::Members && stop.text != kDropped && changed_.insert(stop.round).second)
    stopping_.push_back(stop);
  // A run may be closed while a round is stopped; else there is one word about its end. A node that
  // was dropped alone hears that, and the others do not.
  const Stop& before = first->second;
  if (has_verdict && before.verdict && before.text != stop.text)
    violated(
        fmt::format("two verdicts of {}: {}; {}", round_text(stop.round), before.text, stop.text));
  const bool is_worse = was_closed && stop.why == Stop::Why::RunFailed;
  if (is_end(before) && before != stop && before.round == stop.round && !is_worse)
    violated(
        fmt::format("the end of the run was told in two ways: {}; {}", before.text, stop.text));
}

void SessionInvariants::check_verdict(const Stop& stop) {
  if (!stop.verdict) return;
  const auto found = failures_.find(stop.verdict->text);
  if (found == failures_.end() || found->second.round != stop.round ||
      found->second.id != stop.culprit)
    violated(fmt::format("the verdict of {} did not happen: {}", round_text(stop.round),
                         stop.verdict->text));
}

void SessionInvariants::check_count(std::int64_t restart_count) {
  const RunRules& rules = plan_.rules;
  if (restart_count > rules.max_restarts && rules.restart_window == Duration{})
    violated(fmt::format("restart {} of {}", restart_count, rules.max_restarts));
  if (restart_count > most_restarts_)
    violated(fmt::format("restart {} is told of, and failures account for {}", restart_count,
                         most_restarts_));
}

void SessionInvariants::check_budget(const Stop& stop, Instant now) {
  const RunRules& rules = plan_.rules;
  if (stop.why == Stop::Why::Failure && failed_.insert(stop.round).second) {
    // The failure of a round from an earlier life may have been counted there.
    if (sealed_ == stop.round && stop.restart_count < restarts_ + 1)
      violated("a failure that costs no restart: " + stop.text);
    within_window_.push_back(now);
    while (now - within_window_.front() > drifted(rules.restart_window)) within_window_.pop_front();
    if (rules.restart_window > Duration{} &&
        static_cast<std::int64_t>(within_window_.size()) > rules.max_restarts)
      violated(fmt::format("{} restarts within {}", within_window_.size(),
                           seconds(rules.restart_window)));
  }
  check_count(stop.restart_count);
  restarts_ = std::max(restarts_, stop.restart_count);
  // In a closed run there is no next round, whatever is left.
  const bool is_for_want_of_restarts =
      stop.why == Stop::Why::RunFailed && stop.verdict && stop.note.empty() && !over_;
  if (is_for_want_of_restarts && rules.restart_window == Duration{} &&
      stop.restart_count < rules.max_restarts)
    violated(fmt::format("the run has failed with {} restarts of {}", stop.restart_count,
                         rules.max_restarts));
}

// ---- Reasons ----

void SessionInvariants::said(const NodeId& id, const FromAgent& message) {
  if (const auto* join = std::get_if<Join>(&message)) {
    // The same number from a member is the join that has brought it in, said again.
    const auto last = joins_.find(id);
    const auto told = told_.find(id);
    const bool is_member = told != told_.end() && sealed_ == told->second.round;
    const bool is_again = last != joins_.end() && last->second == join->number;
    if (!is_member || !is_again) joining_.insert(id);
    joins_[id] = join->number;
  }
  if (const auto* done = std::get_if<Done>(&message)) done_.emplace(id, done->round);
  if (const auto* failed = std::get_if<Failed>(&message)) said_failed(failed->round);
  if (std::holds_alternative<Leave>(message)) gone(id);
}

// From here on the failure may cost a restart. It may be judged without a word, if all have left
// the round by then.
void SessionInvariants::said_failed(std::int64_t round) {
  if (changed_.contains(round) || !reported_.insert(round).second) return;
  const auto restored = restored_.find(round);
  // An earlier coordinator may have counted it, and some node knows.
  if (sealed_ != round && restored != restored_.end())
    most_restarts_ = std::max(most_restarts_, restored->second.restart_count + 1);
  else
    ++most_restarts_;
}

void SessionInvariants::closed(const NodeId& id) {
  present_.erase(id);
  joining_.erase(id);
}

// A member whose part is done may go, and is not missed.
bool SessionInvariants::is_missed(const NodeId& member, std::int64_t round) const {
  if (joining_.contains(member) || lost_.contains(member)) return true;
  return !present_.contains(member) && !done_.contains({member, round});
}

// One of its members is gone, or another node wants to come in and there is room for it.
bool SessionInvariants::has_reason(std::int64_t round) const {
  if (broken_.contains(round)) return true;  // A node without a session has just left it.
  std::set<NodeId> members;
  std::int64_t world_size = 0;
  for (const auto& [id, sealed] : told_) {
    if (sealed.round != round) continue;
    members.insert(id);
    world_size = sealed.world_size;
  }
  if (const auto found = restored_.find(round); members.empty() && found != restored_.end()) {
    members = found->second.members;
    world_size = found->second.world_size;
    // Members have not come back to this coordinator, or the others are in a later round.
    if (static_cast<std::int64_t>(members.size()) < world_size || held_ > round) return true;
  }
  if (std::any_of(members.begin(), members.end(),
                  [&](const NodeId& member) { return is_missed(member, round); }))
    return true;
  return world_size < plan_.rules.max_nodes &&
         std::any_of(joining_.begin(), joining_.end(),
                     [&](const NodeId& id) { return !members.contains(id); });
}

void SessionInvariants::check_reason(const Stop& stop) {
  if (is_mixed(plan_)) return;  // Nodes without a session say nothing of what they do.
  if (!has_reason(stop.round))
    violated(fmt::format("{} was stopped for no reason: {}", round_text(stop.round), stop.text));
  // A round from an earlier life of which all have gone again is stopped without being counted.
  const auto most = plan_.rules.max_membership_changes;
  if (!most || sealed_ != stop.round) return;
  if (++member_changes_ > *most)
    violated(fmt::format("members have changed {} times of {}", member_changes_, *most));
}

}  // namespace regroup::sim
