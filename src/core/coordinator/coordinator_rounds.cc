// What follows from a change: a seal, a reopened round, a stop, the end of the run.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "core/coordinator/coordinator.h"
#include "core/rendezvous/assign_ranks.h"

namespace regroup::core::coordinator {

using namespace rendezvous;

void Coordinator::send(const Node& node, FromCoordinator message, Effects& effects) const {
  if (node.session) add(effects, Send{*node.session, std::move(message)});
}

Reading Coordinator::reading(Now now, bool last_call_over) const {
  return {.now = now.instant,
          .give_up = now.instant + kLongest,
          .heartbeat_due = false,
          .last_call_over = last_call_over};
}

void Coordinator::skip_past_rounds() {
  if (!state_.complete) state_.round = std::max(state_.round, restoring_.next_round());
}

void Coordinator::advance(const Node& node, Operation operation, Now now) {
  const Actor actor{.node = node.id, .claim = node.claim, .utc = now.utc};
  for (int changes = 0;; ++changes) {
    skip_past_rounds();
    CHECK(changes < 8);  // Out of one list, into the next, sealed: the tables have no cycle.
    const Action action = decide(operation, state_, node.id, settings_, reading(now, false));
    if (!changes_state(action)) return;
    // In the tables, a node that reads a sealed round with a hole leaves it. Here no node reads it.
    if (operation == Operation::Join && action == Action::RemoveFromParticipants) return;
    state_ = apply(std::move(state_), action, actor, settings_);
  }
}

Segments::Preference Coordinator::preference(const Node& node) const {
  if (last_round_.had(node.id)) return {0, node.arrived};
  if (state_.redundancy_list.contains(node.id)) return {3, node.arrived};
  return {last_round_.had_name(node.claim.name) ? 1 : 2, node.arrived};
}

void Coordinator::advance_all_joining(Now now) {
  if (restoring_.is_holding()) return;
  if (segments_.are_wanted()) {
    for (const auto& [id, node] : nodes_)
      if (node.doing == Doing::Joining && !state_.participants.contains(id))
        segments_.wants_in(node.claim.group, id);
    return place_segments(now);
  }
  struct Place {
    Segments::Preference preference;
    const Node* node;
  };
  std::vector<Place> places;
  for (const auto& [id, node] : nodes_) {
    if (node.doing != Doing::Joining) continue;
    places.push_back({preference(node), &node});
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.preference < b.preference; });
  for (const Place& place : places) advance(*place.node, Operation::Join, now);
}

void Coordinator::follow_up(const std::string& before, Now now, Effects& effects) {
  if (state_.closed) return;
  skip_past_rounds();
  const bool reopened = !state_.complete && before != phase(state_);
  if (reopened) advance_all_joining(now);
  place_segments(now);
  seal_if_due(now);
  last_call_.observe(state_.deadline, now.instant);
  if (state_.complete && !last_round_.is(state_.round)) announce_seal(now, effects);
  if (is_running() && last_round_.is(state_.round) && !restoring_.is_holding() &&
      !state_.wait_list.empty() &&
      static_cast<std::int64_t>(state_.participants.size()) < settings_.max_nodes &&
      !a_member_is_done()) {
    const std::size_t waiting = state_.wait_list.size();
    stop_round({.why = Stop::Why::Members,
                .text = fmt::format("{} {} to come in", count_of(waiting, "node"),
                                    waiting == 1 ? "wants" : "want")},
               now, effects);
  }
  if (before != phase(state_)) add(effects, LeftPhase{before});
  progress_.has_changed(now.instant, nodes_.size());
}

// Its workers would have to run again. A node that comes now waits, and is not needed unless
// something fails.
bool Coordinator::a_member_is_done() const {
  return is_running() && std::any_of(nodes_.begin(), nodes_.end(), [this](const auto& entry) {
           return entry.second.doing == Doing::Done && state_.participants.contains(entry.first);
         });
}

void Coordinator::place_segments(Now now) {
  if (!segments_.are_wanted() || restoring_.is_holding() || state_.closed) return;
  if (!segments_.have_changed()) return;
  // The members leave a round that is being stopped one by one. Then the next one is open, and all
  // nodes are placed.
  if (state_.complete && !is_running()) return;
  const auto changed = segments_.take_changed(standings(), !state_.complete);
  for (const NodeId& id : changed.broken) make_spare(nodes_.at(id), now);
  const auto room = rules_.max_nodes - static_cast<std::int64_t>(state_.participants.size());
  const auto placing = segments_.place(changed, room, standings());
  // While a round runs, the nodes that would fit wait for the next one, and are a reason to begin
  // it.
  for (const NodeId& id : placing.let_in) advance(nodes_.at(id), Operation::Join, now);
  for (const NodeId& id : placing.spares) make_spare(nodes_.at(id), now);
}

Segments::StandingOf Coordinator::standings() const {
  return [this](const NodeId& id) -> Segments::Standing {
    const Node& node = nodes_.at(id);
    return {.is_joining = node.doing == Doing::Joining,
            .is_member = state_.participants.contains(id),
            .preference = preference(node)};
  };
}

void Coordinator::make_spare(const Node& node, Now now) {
  if (state_.redundancy_list.contains(node.id)) return;
  const Actor actor{.node = node.id, .claim = node.claim, .utc = now.utc};
  if (state_.participants.contains(node.id))
    state_ = apply(std::move(state_), Action::RemoveFromParticipants, actor, settings_);
  state_ = apply(std::move(state_), Action::AddToRedundancyList, actor, settings_);
}

// When the members of the last round are back, or when the last call is over.
void Coordinator::seal_if_due(Now now) {
  if (state_.complete || state_.participants.empty() || restoring_.is_holding()) return;
  const auto end = last_call_.end();
  // A node that waits without a session notices that the round is open when it looks next, in a
  // second or so. If the round were sealed before that, the waiting node would stop it again, and
  // so on without end.
  const bool others_wait = std::any_of(state_.wait_list.begin(), state_.wait_list.end(),
                                       [this](const NodeId& id) { return !has_session(id); });
  const bool all_back = last_round_.awaits_nobody() && !others_wait;
  if (!all_back && !(end && now.instant > *end)) return;
  const NodeId actor = state_.participants.begin()->first;
  const Action action = decide(Operation::Join, state_, actor, settings_, reading(now, true));
  if (action != Action::MarkComplete) return;
  state_ =
      apply(std::move(state_), action, {.node = actor, .claim = {}, .utc = now.utc}, settings_);
}

void Coordinator::announce_seal(Now now, Effects& effects) {
  budget_.on_round_started(now.instant);
  restoring_.leave_the_past();
  restoring_.drop_hold();
  const auto world_size = static_cast<std::int64_t>(state_.participants.size());
  const auto size = static_cast<std::size_t>(world_size);
  std::set<NodeId> members;
  std::vector<std::string> names(size);
  std::vector<Node*> by_rank(size, nullptr);
  std::vector<bool> taken(size, false);
  std::vector<RoleInfo> roles(size);
  bool by_session = true;
  for (const auto& [id, rank] : state_.participants) {
    members.insert(id);
    if (rank < 0 || rank >= world_size) {
      by_session = false;  // A round that another node has sealed, with a hole in it.
      continue;
    }
    const auto index = static_cast<std::size_t>(rank);
    if (taken[index]) {
      by_session = false;  // A node that swaps states may say anything: two have this rank.
      continue;
    }
    taken[index] = true;
    names[index] = name_of(state_, id);
    const auto found = nodes_.find(id);
    if (found == nodes_.end() || found->second.doing != Doing::Joining) {
      by_session = false;
      continue;
    }
    by_rank[index] = &found->second;
    roles[index] = {found->second.role, rank, found->second.workers};
  }
  last_round_.seal(state_.round, world_size, std::move(members), std::move(names));
  std::vector<AssignedRanks> ranks(size);
  if (by_session) ranks = assign_ranks(roles);
  for (std::size_t index = 0; index < size; ++index) {
    Node* node = by_rank[index];
    if (node == nullptr) continue;
    node->doing = Doing::Running;
    node->claim.held = HeldRank{
        .round = state_.round, .rank = static_cast<std::int64_t>(index), .world_size = world_size};
    node->sealed = {.round = state_.round,
                    .rank = static_cast<std::int64_t>(index),
                    .world_size = world_size,
                    .restart_count = budget_.restart_count(node->id),
                    .by_session = by_session,
                    .ranks = ranks[index],
                    .bootstrap = {}};
    if (by_session) node->sealed.bootstrap = by_rank.front()->join->bootstrap;
    send(*node, node->sealed, effects);
  }
  // A node that came too late for this round waits for the next, or is a spare.
  advance_all_joining(now);
}

void Coordinator::stop_round(Stop stop, Now now, Effects& effects) {
  if (!is_running()) return;
  if (stop.why == Stop::Why::Members) {
    const RestartBudget::Decision decision = budget_.on_members_changed();
    if (!decision.restart) {
      stop.why = Stop::Why::RunFailed;
      stop.note = decision.note;
      return end_run(std::move(stop), now, effects);
    }
  }
  last_round_.stop(std::move(stop));
  silence_.look_at_once();  // A node that was done and has left counts as missing from now on.
  for (const auto& [id, node] : nodes_)
    if (node.doing == Doing::Running || node.doing == Doing::Done)
      send(node, stop_for(node), effects);
}

Stop Coordinator::stop_for(const Node& node) const {
  Stop stop = last_round_.why_stopped();
  stop.restart_count = budget_.restart_count(node.id);
  // Where each node counts its own restarts, failures of others are only a change of members.
  if (rules_.per_node && stop.why == Stop::Why::Failure && stop.culprit != node.id) {
    stop.why = Stop::Why::Members;
    stop.verdict.reset();
  }
  return stop;
}

}  // namespace regroup::core::coordinator
