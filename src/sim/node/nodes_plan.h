// What a seed makes of a run of whole nodes: the plan of a run with a coordinator, and what its
// workers do.
#pragma once

#include <string>

#include "sim/session/session_plan.h"

namespace regroup::sim {

// Chances are per worker and round, and count while the faults last.
struct WorkPlan {
  bool is_long = false;  // No worker is done before the nodes have met after the faults.
  Duration longest{};    // A worker's part, where the work is short; and to the end of a long one.
  double fails = 0;
  Duration fails_within{};
  double drags_others = 0;  // Workers of other nodes fail soon after, because of it.
  double hangs = 0;         // Only in long work, and where hangs are looked for.
  double stops_slowly = 0;  // Takes up to the whole grace, or a little more.
  double ignores_stop = 0;  // Only SIGKILL ends it.
  double survives = 0;      // Nothing ends it in time: it waits for a disk that is gone.
};

struct NodesPlan {
  SessionPlan session;
  WorkPlan work;
  Duration kill_wait{};
  Duration hang_timeout{};  // Zero: hangs are not looked for.
  Duration join_timeout{};
  Duration exit_limit{};
  double starts_again = 0;  // A node that was ended by a signal is started again.
};

// The limits of an agent, as the runtime has them.
inline constexpr Duration kDecisionLimit = 10s;
inline constexpr Duration kCoordinatorLimit = 10s;
inline constexpr Duration kGoodbyeLimit = 2s;
inline constexpr Duration kOtherNodesTurn = 15s;
inline constexpr Duration kSignalWait = 250ms;

NodesPlan make_nodes_plan(const Options& options);

// Within this, undisturbed, a node whose round is over has heard of it, and its workers have ended.
Duration stopping_bound(const NodesPlan& plan);

// Within this after the faults have stopped, all live nodes are in one round, or wait in vain.
Duration meeting_bound(const NodesPlan& plan);
// Within this after the faults have stopped, all nodes have ended.
Duration ending_bound(const NodesPlan& plan);

std::string describe(const NodesPlan& plan);

}  // namespace regroup::sim
