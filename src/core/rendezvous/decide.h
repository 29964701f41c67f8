// The decision tables of the rendezvous: what a node does next, given the state it sees, and how
// that changes the state. Pure functions; the caller passes the time in.
//
// The rows and their order are torchrun's (its nodes may be in the same run); where regroup departs
// from them, the code says so. Comparisons are strict or inclusive exactly as there.
#pragma once

#include <string_view>
#include <vector>

#include "base/instant.h"
#include "core/rendezvous/settings.h"
#include "core/rendezvous/state.h"

namespace regroup::core::rendezvous {

enum class Operation {
  Join,       // Be in a round, however long it takes.
  Exit,       // Leave the round, to join the next.
  Leave,      // Leave every list: this node is going away. (torchrun has no such thing.)
  Close,      // End the run for all nodes.
  KeepAlive,  // Say that this node is alive.
  Look,       // See the state, change nothing.
};

enum class Action {
  KeepAlive,
  AddToParticipants,
  AddToWaitList,
  AddToRedundancyList,
  RemoveFromParticipants,
  RemoveFromWaitList,
  RemoveFromRedundancyList,
  MarkComplete,
  MarkClosed,
  // These change nothing in the state:
  Sync,          // Look again later.
  Finish,        // The operation has reached its end.
  ErrorClosed,   // The run is closed.
  ErrorTimeout,  // The operation's time is over.
  GracefulExit,  // A spare, and the run is closed: it was not needed.
};

std::string_view to_string(Action action);
bool changes_state(Action action);

// What the node's own clocks say at the moment of the decision.
struct Reading {
  Instant now;
  Instant give_up;              // When the operation's time is over.
  bool heartbeat_due = false;   // This node's own heartbeat is as old as the interval.
  bool last_call_over = false;  // The state's deadline has passed.
};

// After its time is over, a node that is on a list uses this much more time to take itself off.
inline constexpr Duration kRollbackPeriod = 5s;

Action decide(Operation operation, const State& state, const NodeId& self, const Settings& settings,
              const Reading& reading);

// Which node acts, and what its wall clock says.
struct Actor {
  NodeId node;
  Claim claim;
  Stamp utc;
};

// Only for actions that change the state.
State apply(State state, Action action, const Actor& actor, const Settings& settings);

// The state without the nodes that have gone silent, if there are any.
State without(State state, const std::vector<NodeId>& dead, const Settings& settings);

// A state that was read, as the tables take it for granted and apply() keeps it: a node is in one
// list at most. A stranger may write anything.
State with_invariants(State state);

// True if the round is sealed and all that were in it then are still there. A member that reads the
// seal late must not start with a world that others see differently.
bool is_whole(const State& state);

}  // namespace regroup::core::rendezvous
