#include "sim/session_plan.h"

#include <algorithm>

#include "sim/trace.h"

namespace regroup::sim {

using core::coordinator::Rules;
using core::rendezvous::Settings;

namespace {

Rules choose_rules(std::int64_t nodes, Dice& dice) {
  Rules rules;
  switch (dice.between(0, 4)) {
    case 0:  // All or nothing.
      rules.min_nodes = rules.max_nodes = nodes;
      break;
    case 1:  // Elastic downwards.
      rules.max_nodes = nodes;
      rules.min_nodes = dice.between(1, nodes);
      break;
    case 2:  // Spares.
      rules.max_nodes = dice.between(std::max<std::int64_t>(1, nodes / 2), nodes);
      rules.min_nodes = dice.between(1, rules.max_nodes);
      break;
    case 3:  // Never full.
      rules.max_nodes = nodes + dice.between(1, 3);
      rules.min_nodes = dice.between(1, nodes);
      break;
    default:  // Spares, and a fixed size.
      rules.min_nodes = rules.max_nodes = std::max<std::int64_t>(1, nodes - dice.between(0, 2));
  }
  rules.last_call = dice.between(1, 6) * 1s;
  rules.heartbeat_limit = dice.between(1, 5) * 1s;
  rules.pardon = dice.chance(0.2) ? Duration{} : dice.between(1, 10) * 50ms;
  rules.max_restarts = dice.chance(0.3) ? dice.between(0, 3) : 1000;
  return rules;
}

Fortune choose_fortune(FaultLevel level, Dice& dice) {
  Fortune fortune;
  fortune.stops_slowly = 0.15;
  const bool short_run = dice.chance(0.15);
  const double most = level == FaultLevel::Heavy ? 0.4 : 0.1;
  fortune.fails = dice.chance(0.3) ? 0.0 : most * static_cast<double>(dice.between(1, 100)) / 100;
  fortune.fails_within = dice.chance(0.3) ? Duration(1s) : Duration(30s);
  fortune.drags_others = dice.chance(0.5) ? 0.7 : 0.0;
  fortune.succeeds = short_run ? 0.9 : dice.chance(0.2) ? 0.2 : 0.0;
  fortune.succeeds_within = dice.between(5s, 60s);
  if (level == FaultLevel::None) fortune.fails = fortune.succeeds = 0;
  return fortune;
}

FaultLevel choose_faults(const Options& options, Dice& dice) {
  const std::int64_t roll = dice.between(0, 9);
  if (options.faults) return *options.faults;
  return roll == 0 ? FaultLevel::None : roll < 4 ? FaultLevel::Light : FaultLevel::Heavy;
}

}  // namespace

SessionPlan make_session_plan(const Options& options) {
  Dice dice(options.seed ^ 0x5e5510);
  SessionPlan plan;
  const std::int64_t drawn = dice.chance(0.1) ? dice.between(1, 12) : dice.between(2, 6);
  const std::int64_t nodes = options.nodes.value_or(drawn);
  plan.faults = choose_faults(options, dice);
  plan.rules = choose_rules(nodes, dice);
  plan.fortune = choose_fortune(plan.faults, dice);
  plan.slow = dice.chance(0.5) ? 0.0 : 0.02;
  plan.ends_for_good = 0.2;
  plan.ending = static_cast<Ending>(dice.between(0, 3));
  plan.chaos = plan.faults == FaultLevel::None ? Duration(1s) : dice.between(20s, 120s);
  plan.grace = dice.between(2s, 8s);
  plan.longest_fault = plan.rules.heartbeat_limit * 3;
  plan.restart_delay = 5s;
  if (plan.faults == FaultLevel::Light) plan.between_faults = dice.between(10s, 40s);
  if (plan.faults == FaultLevel::Heavy) plan.between_faults = dice.between(500ms, 8s);
  const auto clock = [&dice] {
    return NodeClock(dice.between(1s, 1000000s), dice.between(Duration(-10min), Duration(10min)),
                     dice.between(-kMostDriftPpm, kMostDriftPpm));
  };
  plan.host_clock = clock();
  const bool has_roles = dice.chance(0.2);
  for (std::int64_t index = 0; index < nodes; ++index) {
    SessionNodePlan node;
    node.name = "n" + std::to_string(index);
    node.clock = clock();
    node.role = has_roles && dice.chance(0.5) ? "reader" : "trainer";
    node.workers = dice.between(1, 4);
    node.starts = dice.chance(0.7) ? dice.between(0s, 500ms) : dice.between(0s, 20s);
    node.seed = dice.seed();
    plan.nodes.push_back(std::move(node));
  }
  plan.seed = dice.seed();
  return plan;
}

Settings shared_settings(const SessionPlan& plan) {
  Settings settings;
  settings.run_id = "sim";
  settings.min_nodes = plan.rules.min_nodes;
  settings.max_nodes = plan.rules.max_nodes;
  settings.last_call_timeout = plan.rules.last_call;
  return settings;
}

Duration meeting_bound(const SessionPlan& plan) {
  const Duration limit = plan.rules.heartbeat_limit;
  // The last pause has ended, whoever was down is there again (the host too), both ends of a dead
  // connection have noticed, and the next try has come through.
  const Duration back =
      plan.longest_fault + plan.restart_delay + limit + kConnectTimeout + kLongestRetry;
  // Who is missing is missed, workers have stopped, the last call is over.
  const Duration meeting = limit + plan.grace + plan.rules.last_call + 1s;
  return back + meeting * 2;
}

Duration ending_bound(const SessionPlan& plan) {
  return plan.grace + plan.rules.heartbeat_limit + 2s;
}

std::string describe(const SessionPlan& plan) {
  return std::to_string(plan.nodes.size()) + " nodes, " + std::to_string(plan.rules.min_nodes) +
         ".." + std::to_string(plan.rules.max_nodes) + " in a round; faults " +
         std::string(to_string(plan.faults)) + " for " + seconds(plan.chaos) + "; last call " +
         seconds(plan.rules.last_call) + ", heartbeat limit " +
         seconds(plan.rules.heartbeat_limit) + ", pardon " + seconds(plan.rules.pardon) + ", " +
         std::to_string(plan.rules.max_restarts) + " restarts, grace " + seconds(plan.grace) +
         ", meeting within " + seconds(meeting_bound(plan));
}

}  // namespace regroup::sim
