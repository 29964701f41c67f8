// Which nodes are lost, with a session or without, and how nodes without one change the state.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/coordinator/coordinator.h"

namespace regroup::core::coordinator {

using namespace rendezvous;

void Coordinator::lose(const std::vector<NodeId>& lost, const std::string& why, Now now,
                       Effects& effects) {
  const std::string before = phase(state_);
  const std::size_t members = state_.participants.size();
  for (const NodeId& id : lost)
    if (const auto found = nodes_.find(id); found != nodes_.end())
      leave_council(found->second, effects);
  if (!state_.closed) state_ = without(std::move(state_), lost, settings_);
  // This holds for a closed run as well: its workers keep running without the lost node's.
  bool runs_on_without = false;
  for (const NodeId& id : lost) {
    last_round_.has_come_or_gone(id);
    const auto found = nodes_.find(id);
    runs_on_without |= found == nodes_.end() || found->second.doing == Doing::Running;
    if (found == nodes_.end()) {
      state_.last_heartbeats.erase(id);  // It is not reported lost again.
      continue;
    }
    if (found->second.session) {
      sessions_.erase(*found->second.session);
      add(effects, CloseSession{*found->second.session, why});
    }
    if (segments_.are_wanted()) segments_.remove(found->second.claim.group, id);
    budget_.forget(id);
    nodes_.erase(found);
  }
  if (state_.closed) {
    if (runs_on_without) fail_after_close({.why = Stop::Why::RunFailed, .text = why}, effects);
    return;
  }
  if (is_running() && last_round_.is(state_.round) && state_.participants.size() < members)
    stop_round({.why = Stop::Why::Members, .text = why}, now, effects);
  follow_up(before, now, effects);
}

void Coordinator::find_lost(Now now, Effects& effects) {
  std::vector<NodeId> closed;
  std::vector<NodeId> silent;
  std::vector<SessionId> done_and_gone;  // They have finished their work, and it stays finished.
  for (const auto& [id, node] : nodes_) {
    const bool is_member = is_running() && state_.participants.contains(id);
    if (!node.session && (node.doing == Doing::Done && is_member)) continue;
    const Instant limit = silence_.limit_of(node.heard, node.session.has_value(), now.instant);
    if (now.instant <= limit)
      silence_.look_by(limit + 1ms);
    else if (node.session && node.doing == Doing::Done && is_member)
      done_and_gone.push_back(*node.session);
    else
      (node.session ? silent : closed).push_back(id);
  }
  for (const SessionId session : done_and_gone) {
    node_of(session)->session.reset();
    sessions_.erase(session);
    add(effects, CloseSession{session, "it is done, and silent"});
  }
  // All at once: a silent node must not be sealed in just because another one was dropped first.
  std::vector<NodeId> gone = closed;
  gone.insert(gone.end(), silent.begin(), silent.end());
  if (!gone.empty()) {
    const bool is_one = gone.size() == 1;
    const std::string& first = nodes_.at(gone.front()).claim.name;
    std::string why = is_one ? fmt::format("{} is gone", first)
                             : fmt::format("{} and {} more are gone", first, gone.size() - 1);
    if (silent.empty())
      why += is_one ? ": its connection was closed" : ": their connections were closed";
    if (closed.empty())
      why += fmt::format(": nothing was heard for {} s", rules_.heartbeat_limit / 1s);
    lose(gone, why, now, effects);
  }
  const auto hold_until = restoring_.hold_until();
  if (!hold_until) return;
  if (now.instant < *hold_until) return silence_.look_by(*hold_until);
  end_hold(now, effects);
}

bool Coordinator::has_others() const {
  const auto other = [this](const NodeId& id) { return !has_session(id); };
  return std::any_of(state_.participants.begin(), state_.participants.end(),
                     [&](const auto& entry) { return other(entry.first); }) ||
         std::any_of(state_.wait_list.begin(), state_.wait_list.end(), other) ||
         std::any_of(state_.redundancy_list.begin(), state_.redundancy_list.end(), other);
}

void Coordinator::find_lost_others(Now now, Effects& effects) {
  if ((state_.closed && !workers_run_on()) || !has_others()) return;
  others_.look_soon(now.instant);
  std::vector<NodeId> silent = others_.silent(state_, now.instant);
  std::erase_if(silent, [this](const NodeId& id) { return has_session(id); });
  if (silent.empty()) return;
  lose(silent, name_of(state_, silent.front()) + " is gone: it has sent no heartbeat", now,
       effects);
}

const State& Coordinator::state_for_others(Now now) {
  if (others_.take_refresh(now.instant))
    for (auto& [id, stamp] : state_.last_heartbeats)
      if (has_session(id)) stamp = now.utc;
  others_.look_soon(now.instant);
  return state_;
}

void Coordinator::on_swapped(State state, Now now, Effects& effects) {
  if (segments_.are_wanted()) return;
  state = with_invariants(std::move(state));
  if (state_.closed) {
    // Workers may still run, so it matters which nodes are alive.
    for (auto& [id, stamp] : state_.last_heartbeats)
      if (const auto found = state.last_heartbeats.find(id);
          found != state.last_heartbeats.end() && !has_session(id))
        stamp = found->second;
    return;
  }
  others_.look_soon(now.instant);
  for (auto& [id, claim] : state.claims)  // The text that was swapped has no groups.
    if (const auto found = nodes_.find(id); found != nodes_.end())
      claim.group = found->second.claim.group;
  // Most swaps are heartbeats, and nothing follows from those.
  state_.last_heartbeats = state.last_heartbeats;
  if (state_ == state) return;
  const std::string before = phase(state_);
  const std::size_t members = state_.participants.size();
  const bool was_running = is_running();
  state_ = std::move(state);
  if (state_.closed) {
    state_.closed = false;  // end_run() closes it.
    return end_run({.why = Stop::Why::Closed, .text = "the run was closed"}, now, effects);
  }
  if (was_running && is_running() && last_round_.is(state_.round) &&
      state_.participants.size() < members)
    stop_round({.why = Stop::Why::Members, .text = "a node of the round is gone"}, now, effects);
  // A node that was dropped by another one, which judges by other rules, joins again.
  for (auto& [id, node] : nodes_)
    if ((node.doing == Doing::Running || node.doing == Doing::Done) &&
        !state_.participants.contains(id)) {
      send(node,
           Stop{.round = last_round_.number().value_or(0),
                .why = Stop::Why::Members,
                .text = dropped_text(),
                .restart_count = budget_.restart_count(node.id)},
           effects);
      node.doing = Doing::Idle;
      last_round_.has_come_or_gone(id);
    }
  if (!state_.complete)
    for (const auto& [id, rank] : state_.participants) last_round_.has_come_or_gone(id);
  advance_all_joining(now);
  follow_up(before, now, effects);
}

}  // namespace regroup::core::coordinator
