// What happens to nodes without a session, and what has become of them.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "sim/session/session_others.h"

namespace regroup::sim {

using core::rendezvous::NodeId;
using core::rendezvous::State;

void SessionOthers::plan_fortune(std::int32_t index) {
  if (!node(index).running() || !dice_.chance(plan_.fortune.fails)) return;
  plan_at(
      index, node(index).process(), now() + dice_.between(Duration{}, plan_.fortune.fails_within),
      [this, index, belief = invariants_.beliefs()[static_cast<std::size_t>(index)]] {
        if (calm_ || !belief || invariants_.beliefs()[static_cast<std::size_t>(index)] != belief)
          return;
        node(index).fail_workers();
      });
}

void SessionOthers::group_failed(std::int64_t round, double drags_others) {
  for (std::int32_t index = 0; index < count(); ++index) {
    const auto& belief = invariants_.beliefs()[static_cast<std::size_t>(index)];
    if (!belief || belief->round != round || !dice_.chance(drags_others)) continue;
    plan_at(index, node(index).process(), now() + dice_.between(Duration{}, Duration(300ms)),
            [this, index, believed = *belief] {
              if (!calm_ && invariants_.beliefs()[static_cast<std::size_t>(index)] == believed)
                node(index).fail_workers();
            });
  }
}

void SessionOthers::kill(std::int32_t index) {
  if (!node(index).running()) return;
  totals_.crashes += 1;
  node(index).crash();
  paused_until_[static_cast<std::size_t>(index)] = now();
  const std::int64_t luck = dice_.between(0, 3);
  if (luck == 0) start_after(index, dice_.between(Duration(1ms), Duration(500ms)));
  if (luck >= 2) start_after(index, dice_.between(Duration(500ms), plan_.others.longest_fault));
}

void SessionOthers::pause(std::int32_t index, Duration length) {
  if (!node(index).running()) return;
  totals_.pauses += 1;
  trace_.line(now(), short_name(node(index).id()), "stands still for " + seconds(length));
  Instant& until = paused_until_[static_cast<std::size_t>(index)];
  until = std::max(until, now() + length);
}

void SessionOthers::cut_off(std::int32_t index, Duration length) {
  totals_.partitions += 1;
  trace_.line(now(), short_name(node(index).id()), "cannot reach the store for " + seconds(length));
  network_.cut_off(index);
  agenda_.plan({.at = now() + length, .act = [this, index] {
                  if (!calm_) network_.reconnect(index);
                }});
}

void SessionOthers::leave(std::int32_t index, Duration come_back) {
  // torchrun has no word for leaving: its node is just gone.
  if (node(index).torchrun()) return kill(index);
  if (!node(index).running()) return;
  totals_.leaves += 1;
  node(index).leave(come_back);
}

void SessionOthers::calm_down() {
  calm_ = true;
  network_.calm_down();
  for (std::int32_t index = 0; index < count(); ++index)
    if (!node(index).running() && !node(index).ended() &&
        !dice_.chance(plan_.others.weather.ends_for_good))
      start_after(index, dice_.between(Duration(1ms), plan_.others.restart_delay));
}

bool SessionOthers::peers_gone(std::int32_t index) const {
  const auto& beliefs = invariants_.beliefs();
  const auto& mine = beliefs[static_cast<std::size_t>(index)];
  if (!mine) return false;
  const auto* members = invariants_.sealed(mine->round);
  if (members == nullptr) return true;  // Of a host that has died: the others have noticed, too.
  const State* state = host_.state();
  const auto here = [&](const NodeId& member) {
    // It may not have read yet that the round is sealed.
    const bool is_listed = state != nullptr && state->complete && state->round == mine->round &&
                           state->participants.contains(member);
    for (std::int32_t seat = 0; seat < count(); ++seat) {
      if (node(seat).id() != member || !node(seat).running()) continue;
      const auto& belief = beliefs[static_cast<std::size_t>(seat)];
      return is_listed || (belief && belief->round == mine->round);
    }
    return peers_.stays_in(member, mine->round);
  };
  return !std::all_of(members->begin(), members->end(),
                      [&](const auto& member) { return here(member.first); });
}

// ---- What has become of them ----

void SessionOthers::state_changed(const State& before, const State& after, const NodeId* writer) {
  if (writer == nullptr)
    return invariants_.on_coordinated(now(), before, after,
                                      [this](const NodeId& id) { return is_one(id); });
  invariants_.on_change(now(), *writer, before, after);
  if (before.closed) return;
  // The coordinator answers for nodes that have a session, and shows that they live.
  for (const auto& [id, stamp] : before.last_heartbeats)
    if (!after.last_heartbeats.contains(id) && !is_one(id))
      invariants_.violated(
          fmt::format("{} dropped {}, which has a session", short_name(*writer), short_name(id)));
}

bool SessionOthers::is_one(const NodeId& id) const {
  const auto& all = plan_.others.nodes;
  return std::any_of(all.begin(), all.end(),
                     [&](const NodePlan& one) { return one.name == id.address; });
}

bool SessionOthers::is_lost(std::int32_t index) const {
  const State* state = host_.state();
  return node(index).torchrun() && invariants_.beliefs()[static_cast<std::size_t>(index)] &&
         state != nullptr && !state->last_heartbeats.contains(node(index).id());
}

std::int64_t SessionOthers::live() const {
  std::int64_t live = 0;
  for (std::int32_t index = 0; index < count(); ++index)
    if (node(index).running() && !is_lost(index)) ++live;
  return live;
}

std::optional<std::string> SessionOthers::why_not_in(const State& state) const {
  for (std::int32_t index = 0; index < count(); ++index) {
    if (is_lost(index)) continue;
    const NodeId& id = node(index).id();
    const auto& belief = invariants_.beliefs()[static_cast<std::size_t>(index)];
    const auto member = state.participants.find(id);
    if (!node(index).running()) {
      if (member != state.participants.end()) return short_name(id) + " is dead";
    } else if (member != state.participants.end()) {
      if (belief != Belief{.node = id, .round = state.round, .rank = member->second})
        return short_name(id) + " does not know its rank";
    } else if (belief || !state.redundancy_list.contains(id)) {
      return short_name(id) + " is neither a member nor a spare";
    }
  }
  return std::nullopt;
}

std::optional<std::string> SessionOthers::why_not_ended() const {
  for (const Node& one : nodes_)
    // A torchrun node that trains learns of the end at its next rendezvous, if there is one.
    if (one.running() && (!one.torchrun() || one.joining()))
      return short_name(one.id()) + " goes on though the run is over";
  return std::nullopt;
}

}  // namespace regroup::sim
