#include "core/rendezvous/decide.h"

#include "base/check.h"
#include "core/rendezvous/rank_order.h"

namespace regroup::core::rendezvous {
namespace {

std::int64_t size_of(const std::map<NodeId, std::int64_t>& participants) {
  return static_cast<std::int64_t>(participants.size());
}

Action decide_join(const State& state, const NodeId& self, const Settings& settings,
                   const Reading& reading) {
  const bool is_spare = state.redundancy_list.contains(self);
  if (state.closed) return is_spare ? Action::GracefulExit : Action::ErrorClosed;

  const std::int64_t joined = size_of(state.participants);
  if (is_spare) {
    // A spare waits without a time limit, as long as the round is full.
    // In torchrun's table this also applies if there are too many nodes, as one with another
    // maximum sees it; such a node would come and go without end.
    if (joined < settings.max_nodes) return Action::RemoveFromRedundancyList;
    return reading.heartbeat_due ? Action::KeepAlive : Action::Sync;
  }

  const bool is_participant = state.participants.contains(self);
  const bool is_waiting = state.wait_list.contains(self);
  if (state.complete && is_participant) {
    // Not in torchrun's table: there a late reader starts with whatever is left of the round.
    return is_whole(state) ? Action::Finish : Action::RemoveFromParticipants;
  }

  if (reading.now > reading.give_up) {
    if (reading.now <= reading.give_up + kRollbackPeriod) {
      if (is_participant) return Action::RemoveFromParticipants;
      if (is_waiting) return Action::RemoveFromWaitList;
    }
    return Action::ErrorTimeout;
  }

  if (state.complete) {
    // In torchrun's table a waiting node goes on waiting for a round that is full; see
    // mark_complete().
    if (joined >= settings.max_nodes) return Action::AddToRedundancyList;
    if (!is_waiting) return Action::AddToWaitList;
  } else if (!is_participant) {
    return Action::AddToParticipants;
  } else if (joined >= settings.min_nodes && joined <= settings.max_nodes && state.deadline &&
             reading.last_call_over) {
    return Action::MarkComplete;
  }
  return reading.heartbeat_due ? Action::KeepAlive : Action::Sync;
}

Action decide_leave(const State& state, const NodeId& self, const Reading& reading) {
  const bool late = reading.now > reading.give_up;
  if (state.participants.contains(self))
    return late ? Action::ErrorTimeout : Action::RemoveFromParticipants;
  if (state.wait_list.contains(self))
    return late ? Action::ErrorTimeout : Action::RemoveFromWaitList;
  if (state.redundancy_list.contains(self))
    return late ? Action::ErrorTimeout : Action::RemoveFromRedundancyList;
  return Action::Finish;
}

// What follows when a participant is gone.
void after_removal(State& state, const Settings& settings) {
  if (state.complete) {
    if (!state.participants.empty()) return;
    state.complete = false;
    state.round += 1;
  } else if (size_of(state.participants) < settings.min_nodes) {
    state.deadline.reset();
  }
}

void keep_alive(State& state, const Actor& actor) {
  Stamp stamp = actor.utc;
  const auto last = state.last_heartbeats.find(actor.node);
  // Others see that a node is alive because its stamp changes, so it must change even if the clock
  // stands still.
  if (last != state.last_heartbeats.end() && last->second == stamp) stamp.micros += 1;
  state.last_heartbeats[actor.node] = stamp;
}

void mark_complete(State& state, const Settings& settings) {
  state.complete = true;
  state.deadline.reset();
  std::int64_t rank = 0;
  for (const NodeId& node : rank_order(state, settings.segment)) state.participants[node] = rank++;
  state.seal = Seal{.round = state.round, .world_size = rank};
  // Not in torchrun's table: there, a node that waited for this round and found it full goes on
  // waiting; the members see it wait, meet again, and leave another one waiting, without end.
  if (rank != settings.max_nodes) return;
  state.redundancy_list.merge(state.wait_list);
  state.wait_list.clear();
}

void forget(State& state, const NodeId& node) {
  state.last_heartbeats.erase(node);
  state.claims.erase(node);
}

}  // namespace

std::string_view to_string(Action action) {
  switch (action) {
    case Action::KeepAlive:
      return "keep alive";
    case Action::AddToParticipants:
      return "add to participants";
    case Action::AddToWaitList:
      return "add to wait list";
    case Action::AddToRedundancyList:
      return "add to redundancy list";
    case Action::RemoveFromParticipants:
      return "remove from participants";
    case Action::RemoveFromWaitList:
      return "remove from wait list";
    case Action::RemoveFromRedundancyList:
      return "remove from redundancy list";
    case Action::MarkComplete:
      return "mark complete";
    case Action::MarkClosed:
      return "mark closed";
    case Action::Sync:
      return "sync";
    case Action::Finish:
      return "finish";
    case Action::ErrorClosed:
      return "error: closed";
    case Action::ErrorTimeout:
      return "error: timeout";
    case Action::GracefulExit:
      return "graceful exit";
  }
  return "";
}

bool changes_state(Action action) { return action < Action::Sync; }

Action decide(Operation operation, const State& state, const NodeId& self, const Settings& settings,
              const Reading& reading) {
  const bool late = reading.now > reading.give_up;
  switch (operation) {
    case Operation::Join:
      return decide_join(state, self, settings, reading);
    case Operation::Exit:
      if (!state.participants.contains(self)) return Action::Finish;
      return late ? Action::ErrorTimeout : Action::RemoveFromParticipants;
    case Operation::Leave:
      return decide_leave(state, self, reading);
    case Operation::Close:
      if (state.closed) return Action::Finish;
      return late ? Action::ErrorTimeout : Action::MarkClosed;
    case Operation::KeepAlive:
      if (!reading.heartbeat_due) return Action::Finish;
      return late ? Action::ErrorTimeout : Action::KeepAlive;
    case Operation::Look:
      return Action::Finish;
  }
  return Action::Finish;
}

State apply(State state, Action action, const Actor& actor, const Settings& settings) {
  const NodeId& self = actor.node;
  switch (action) {
    case Action::KeepAlive:
      keep_alive(state, actor);
      break;
    case Action::AddToParticipants:
      state.wait_list.erase(self);
      state.participants[self] = 0;
      state.claims[self] = actor.claim;
      keep_alive(state, actor);
      if (size_of(state.participants) == settings.min_nodes) {
        const auto last_call =
            std::chrono::duration_cast<std::chrono::microseconds>(settings.last_call_timeout);
        state.deadline = Stamp{actor.utc.micros + last_call.count()};
      }
      if (size_of(state.participants) == settings.max_nodes) mark_complete(state, settings);
      break;
    case Action::AddToWaitList:
      state.redundancy_list.erase(self);
      state.wait_list.insert(self);
      state.claims[self] = actor.claim;
      keep_alive(state, actor);
      break;
    case Action::AddToRedundancyList:
      state.wait_list.erase(self);
      state.redundancy_list.insert(self);
      state.claims[self] = actor.claim;
      keep_alive(state, actor);
      break;
    case Action::RemoveFromParticipants:
      state.participants.erase(self);
      forget(state, self);
      after_removal(state, settings);
      break;
    case Action::RemoveFromWaitList:
      state.wait_list.erase(self);
      forget(state, self);
      break;
    case Action::RemoveFromRedundancyList:
      state.redundancy_list.erase(self);
      forget(state, self);
      break;
    case Action::MarkComplete:
      mark_complete(state, settings);
      break;
    case Action::MarkClosed:
      state.closed = true;
      break;
    case Action::Sync:
    case Action::Finish:
    case Action::ErrorClosed:
    case Action::ErrorTimeout:
    case Action::GracefulExit:
      CHECK(!"an action that changes the state");
  }
  return state;
}

State without(State state, const std::vector<NodeId>& dead, const Settings& settings) {
  bool participant_removed = false;
  for (const NodeId& node : dead) {
    participant_removed |= state.participants.erase(node) > 0;
    state.wait_list.erase(node);
    state.redundancy_list.erase(node);
    forget(state, node);
  }
  // A sealed round without members has no member to leave it: the first node that sees it opens the
  // next.
  const bool deserted = state.complete && state.participants.empty();
  if (participant_removed || deserted) after_removal(state, settings);
  return state;
}

State with_invariants(State state) {
  for (const auto& [id, rank] : state.participants) {
    state.wait_list.erase(id);
    state.redundancy_list.erase(id);
  }
  for (const NodeId& id : state.wait_list) state.redundancy_list.erase(id);
  return state;
}

bool is_whole(const State& state) {
  if (!state.complete) return false;
  const std::int64_t joined = size_of(state.participants);
  // All that can be seen in a round that torchrun sealed is a hole among the ranks. Where two nodes
  // have one rank, which only a stranger can have written, there is a hole as well.
  std::vector<bool> taken(state.participants.size(), false);
  for (const auto& [node, rank] : state.participants) {
    if (rank < 0 || rank >= joined || taken[static_cast<std::size_t>(rank)]) return false;
    taken[static_cast<std::size_t>(rank)] = true;
  }
  const bool is_known = state.seal && state.seal->round == state.round;
  return !is_known || state.seal->world_size == joined;
}

}  // namespace regroup::core::rendezvous
