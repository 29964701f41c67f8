// A coordinator that was started again: earlier rounds are taken up as nodes tell of them.
#include <fmt/core.h>

#include <utility>

#include "core/coordinator/coordinator.h"

namespace regroup::core::coordinator {

using namespace rendezvous;

void Coordinator::learn_past(const Hello& hello, Now now, Effects& effects) {
  budget_.recall(hello.node, hello.restarts);
  const std::optional<HeldRank> place = hello.running ? hello.running->place : hello.claim.held;
  const bool was_holding = restoring_.is_holding();
  const auto returned = restoring_.on_hello(hello.node, place, hello.again, now.instant);
  if (const auto until = restoring_.hold_until(); until && !was_holding) silence_.look_by(*until);
  const std::string before = phase(state_);
  skip_past_rounds();
  if (phase(state_) != before && !state_.closed) add(effects, LeftPhase{before});
  if (returned == Restoring::Returned::Elsewhere) return;
  if (returned == Restoring::Returned::OfALaterRound) last_round_.forget_members();
  last_round_.add_member(hello.node);
}

// True: its workers may keep running.
bool Coordinator::restore(Node& node, const Running& running, Now now, Effects& effects) {
  const HeldRank& place = running.place;
  if (restoring_.is_past() || !Restoring::can_be(place)) return false;
  if (!last_round_.number() || place.round > *last_round_.number()) {
    begin_restored(running, now, effects);
    restoring_.hold_for_round(now.instant);
    silence_.look_by(*restoring_.hold_until());
  } else if (restoring_.is_holding() && last_round_.is(place.round) && !state_.complete) {
    // All nodes that had come back are gone again. The round is over, but its other members have to
    // stop first.
    begin_restored(running, now, effects);
    last_round_.stop({.why = Stop::Why::Members, .text = "a node of the round is gone"});
  }
  if (!restoring_.is_holding() || state_.closed || !state_.complete ||
      place.round != state_.round || place.world_size != last_round_.world_size() ||
      !restoring_.take_rank(place.rank))
    return false;
  state_.participants.emplace(node.id, place.rank);
  state_.claims[node.id] = node.claim;
  state_.last_heartbeats[node.id] = now.utc;
  last_round_.add_restored(node.id, node.claim.name);
  budget_.resume(node.id, running.restart_count);
  return is_running();
}

// We know of this round only what this member says.
void Coordinator::begin_restored(const Running& running, Now now, Effects& effects) {
  const std::string before = phase(state_);
  stop_round({.why = Stop::Why::Members, .text = "the other nodes are in a later round"}, now,
             effects);
  if (state_.closed) return;
  for (auto& [id, node] : nodes_)
    if (node.doing == Doing::Running || node.doing == Doing::Done) node.doing = Doing::Idle;
  // Nodes that have joined meanwhile wait for the next round.
  for (const auto& [id, rank] : std::exchange(state_.participants, {})) {
    if (!has_session(id)) {
      state_.wait_list.insert(id);
      continue;
    }
    state_.claims.erase(id);
    state_.last_heartbeats.erase(id);
  }
  state_.round = running.place.round;
  state_.complete = true;
  state_.deadline.reset();
  state_.seal = Seal{.round = state_.round, .world_size = running.place.world_size};
  last_round_.restore(state_.round, running.place.world_size);
  restoring_.begin_round();
  add(effects, LeftPhase{before});
}

void Coordinator::end_hold(Now now, Effects& effects) {
  const Restoring::Found found = restoring_.end_hold();
  const std::string before = phase(state_);
  if (found.failure && is_running() && found.failure->second.round == state_.round)
    if (const auto node = nodes_.find(found.failure->first); node != nodes_.end())
      judge_failure(node->second, found.failure->second, now, effects);
  if (state_.closed) return;
  if (last_round_.number())
    council().on_missing(last_round_.world_size() - restoring_.ranks_taken());
  if (last_round_.number() && found.missing > 0)
    stop_round(
        {.why = Stop::Why::Members,
         .text = found.missing == 1 ? "a node of the round has not come back to the coordinator"
                                    : fmt::format("{} nodes of the round have not come back to the "
                                                  "coordinator",
                                                  found.missing)},
        now, effects);
  if (state_.closed) return;
  // All members were here and left their round, so there is nothing to wait for.
  if (!last_round_.number() && found.whole_round) last_round_.left_by_all(*found.whole_round);
  for (const auto& [id, node] : nodes_)
    if (node.doing == Doing::Joining) advance(node, Operation::Exit, now);
  // Some members are here, and have left the round.
  if (is_running() &&
      static_cast<std::int64_t>(state_.participants.size()) < last_round_.world_size())
    stop_round({.why = Stop::Why::Members, .text = "others of the round have left it"}, now,
               effects);
  if (state_.closed) return;
  advance_all_joining(now);
  follow_up(before, now, effects);
  succeed_if_all_are_done(now, effects);
}

}  // namespace regroup::core::coordinator
