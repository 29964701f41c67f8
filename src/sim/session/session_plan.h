// What a seed makes of a run with a coordinator: its nodes, its rules, what goes wrong, how it
// ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/coordinator/messages.h"
#include "sim/world/node_clock.h"
#include "sim/world/options.h"
#include "sim/world/plan.h"

namespace regroup::sim {

struct SessionNodePlan {
  std::string name;
  NodeClock clock;
  std::string role;
  std::int64_t workers = 1;
  std::string group = {};  // Set where only whole groups are let in.
  Duration starts{};
  std::uint64_t seed = 0;
};

// What workers do by themselves while the faults last. Chances are per node and round.
struct Fortune {
  double fails = 0;
  Duration fails_within{};
  double drags_others = 0;  // A peer fails soon after, because of it.
  double succeeds = 0;
  Duration succeeds_within{};
  double stops_slowly = 0;  // The workers take up to the whole grace to stop.
};

enum class Ending { Nothing, Success, Failure, Close };

struct SessionPlan {
  RunRules rules;
  std::vector<SessionNodePlan> nodes;
  // Nodes without a session, as in the world without a coordinator; mostly none.
  Plan others;
  NodeClock host_clock;
  FaultLevel faults = FaultLevel::None;
  Fortune fortune;
  double slow = 0;            // Messages that take up to half the heartbeat limit.
  Duration between_faults{};  // On average. Zero: none.
  double ends_for_good = 0;   // A node that is down when the faults stop stays down.
  Ending ending = Ending::Nothing;
  Duration chaos{};          // How long the faults last.
  Duration grace{};          // No group takes longer to stop.
  Duration longest_fault{};  // No pause and no partition lasts longer.
  Duration restart_delay{};  // A process that is started again is there within this.
  std::uint64_t seed = 0;
};

inline bool is_mixed(const SessionPlan& plan) { return !plan.others.nodes.empty(); }

// The same rules, as the rendezvous knows them.
core::rendezvous::Settings shared_settings(const SessionPlan& plan);

// How an agent tries to reach its coordinator.
inline constexpr Duration kFirstRetry = 20ms;
inline constexpr Duration kLongestRetry = 1s;
inline constexpr Duration kConnectTimeout = 2s;

SessionPlan make_session_plan(const Options& options);

// Within this after the faults have stopped, all live nodes must be in one sealed round.
Duration meeting_bound(const SessionPlan& plan);
// Within this after a run has ended, all live nodes must have heard of it.
Duration ending_bound(const SessionPlan& plan);

std::string describe(const SessionPlan& plan);

}  // namespace regroup::sim
