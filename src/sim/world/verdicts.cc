// What must have become of a run at certain moments after the faults have stopped.
#include <fmt/core.h>

#include <algorithm>

#include "sim/world/world.h"

namespace regroup::sim {

using core::rendezvous::State;

// A torchrun node that was dropped while it lived trains on and does not notice; several of them
// may keep each other company. The run goes on without them.
bool World::is_lost(std::size_t seat) const {
  return nodes_[seat].torchrun() && invariants_.beliefs()[seat] && store_.value() &&
         store_.value()->state &&
         !store_.value()->state->last_heartbeats.contains(nodes_[seat].id());
}

std::int64_t World::live() const {
  std::int64_t live = 0;
  for (std::size_t seat = 0; seat < nodes_.size(); ++seat)
    if (nodes_[seat].running() && !is_lost(seat)) ++live;
  return live;
}

bool World::torchrun_permits() const {
  if (!plan_.has_torchrun) return true;
  // Behind a full round a torchrun node may wait in vain, and its members meet again and again. And
  // a hole in a round is seen by regroup nodes only.
  return static_cast<std::int64_t>(nodes_.size()) <= plan_.settings.max_nodes &&
         std::any_of(nodes_.begin(), nodes_.end(),
                     [](const Node& node) { return node.running() && !node.torchrun(); });
}

bool World::is_closed() const {
  return store_.value() && store_.value()->state && store_.value()->state->closed;
}

std::optional<std::string> World::why_not_met() const {
  const auto& settings = plan_.settings;
  if (is_closed()) return why_not_ended();
  if (live() < settings.min_nodes) return std::nullopt;  // There is no round to ask for.
  if (!torchrun_permits()) return std::nullopt;
  if (!store_.value() || !store_.value()->state) return "there is no state";

  const State& state = *store_.value()->state;
  const std::string there = describe(state, settings);
  if (!state.complete) return "the round is still open: " + there;
  const std::int64_t seats = std::min(live(), settings.max_nodes);
  if (static_cast<std::int64_t>(state.participants.size()) != seats)
    return fmt::format("the round should have {} members: {}", seats, there);
  if (!state.wait_list.empty()) return "somebody still waits: " + there;
  if (static_cast<std::int64_t>(state.redundancy_list.size()) != live() - seats)
    return fmt::format("there should be {} spares: {}", live() - seats, there);

  for (std::size_t seat = 0; seat < nodes_.size(); ++seat) {
    const Node& node = nodes_[seat];
    if (is_lost(seat)) continue;
    const auto& belief = invariants_.beliefs()[seat];
    const auto member = state.participants.find(node.id());
    if (!node.running()) {
      if (member != state.participants.end())
        return fmt::format("{} is dead: {}", short_name(node.id()), there);
    } else if (member != state.participants.end()) {
      const Belief right{.node = node.id(), .round = state.round, .rank = member->second};
      if (belief != right)
        return fmt::format("{} does not know its rank: {}", short_name(node.id()), there);
    } else if (belief || !state.redundancy_list.contains(node.id())) {
      return fmt::format("{} is neither a member nor a spare: {}", short_name(node.id()), there);
    }
  }
  return std::nullopt;
}

void World::note_if_met() {
  if (why_not_met()) {
    met_.reset();
  } else if (!met_) {
    met_ = now();
  }
}

void World::must_have_met() {
  if (const auto why = why_not_met())
    return invariants_.violated(fmt::format("the nodes have not met {} after the last fault: {}",
                                            seconds(meeting_bound(plan_)), *why));
  if (met_ && live() >= plan_.settings.min_nodes) {
    const Duration took = *met_ - calm_since_;
    totals_.nearest_to_bound =
        static_cast<double>(took.count()) / static_cast<double>(meeting_bound(plan_).count());
    trace_.line(now(), "world", fmt::format("all have met {} after the last fault", seconds(took)));
  }
  stage_ = Stage::Steady;
  steady_ = invariants_.beliefs();
  events_.plan({.at = now() + plan_.settings.silence_limit() * 2, .kind = EventKind::MustBeSteady});
}

void World::must_be_steady() {
  // Too few nodes end and come again for ever; and a lost node may come back at any time.
  bool can_be = live() >= plan_.settings.min_nodes && torchrun_permits();
  for (std::size_t seat = 0; seat < nodes_.size(); ++seat) can_be = can_be && !is_lost(seat);
  if (can_be && steady_ != invariants_.beliefs())
    return invariants_.violated("the nodes met again though nothing was wrong");
  if (!plan_.closes || live() == 0) {
    stage_ = Stage::Over;
    return;
  }
  stage_ = Stage::Closing;
  totals_.closes += 1;
  const auto& beliefs = invariants_.beliefs();
  std::size_t closer = nodes_.size();
  for (std::size_t seat = 0; seat < nodes_.size(); ++seat)
    if (nodes_[seat].running() && (closer == nodes_.size() || beliefs[seat])) closer = seat;
  nodes_[closer].close();
  events_.plan({.at = now() + closing_bound(plan_), .kind = EventKind::MustHaveEnded});
}

std::optional<std::string> World::why_not_ended() const {
  for (const Node& node : nodes_) {
    // A torchrun node that trains learns of the end at its next rendezvous, if there is one.
    if (node.running() && (!node.torchrun() || node.joining()))
      return short_name(node.id()) + " goes on though the run is closed";
  }
  return std::nullopt;
}

void World::must_have_ended() {
  stage_ = Stage::Over;
  // Too few nodes for a round end and come again, and the one that was told to close the run may
  // have ended just then.
  if (!is_closed() && live() < plan_.settings.min_nodes) return;
  if (const auto why = why_not_ended())
    invariants_.violated(fmt::format("{}, {} after that", *why, seconds(closing_bound(plan_))));
}

}  // namespace regroup::sim
