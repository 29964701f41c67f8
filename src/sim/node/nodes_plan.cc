#include "sim/node/nodes_plan.h"

#include <fmt/core.h>

#include <algorithm>

#include "sim/world/trace.h"

namespace regroup::sim {

namespace {

WorkPlan choose_work(FaultLevel level, Dice& dice) {
  WorkPlan work;
  work.is_long = dice.chance(0.6);
  work.longest = dice.between(2s, 30s);
  work.stops_slowly = dice.chance(0.5) ? 0.1 : 0.0;
  work.ignores_stop = dice.chance(0.5) ? 0.1 : 0.0;
  if (level == FaultLevel::None) return work;
  const double most = level == FaultLevel::Heavy ? 0.2 : 0.05;
  work.fails = dice.chance(0.2) ? 0.0 : most * static_cast<double>(dice.between(1, 100)) / 100;
  work.fails_within = dice.chance(0.3) ? Duration(1s) : Duration(20s);
  work.drags_others = dice.chance(0.5) ? 0.7 : 0.0;
  work.hangs = dice.chance(0.4) ? 0.05 : 0.0;
  work.survives = dice.chance(0.1) ? 0.02 : 0.0;
  return work;
}

// What the plan of sessions alone does not try: other reasons for a run to be over.
void choose_limits(RunRules& rules, Dice& dice) {
  if (dice.chance(0.15)) rules.max_membership_changes = dice.between(0, 4);
  if (dice.chance(0.1)) rules.no_restart_codes = {3};
  if (dice.chance(0.1)) {
    rules.crash_loop = dice.between(2, 3);
    rules.crash_loop_time = dice.between(1s, 10s);
  }
  if (dice.chance(0.1)) rules.node_strikes = dice.between(1, 3);
}

// The window has dice of its own: all other runs are the same as they were without it.
void choose_restart_window(RunRules& rules, Dice& dice) {
  if (!dice.chance(0.1)) return;
  rules.restart_window = dice.between(10s, 60s);
  rules.max_restarts = dice.between(0, 3);
}

}  // namespace

NodesPlan make_nodes_plan(const Options& options) {
  Options sessions = options;
  sessions.torchrun_nodes = 0;
  NodesPlan plan;
  plan.session = make_session_plan(sessions);
  Dice dice(options.seed ^ 0x40de5);
  plan.work = choose_work(plan.session.faults, dice);
  choose_limits(plan.session.rules, dice);
  Dice windows(options.seed ^ 0x3197d);
  choose_restart_window(plan.session.rules, windows);
  if (plan.session.chaos > 60s) plan.session.chaos = dice.between(20s, 60s);
  plan.kill_wait = dice.between(1s, 4s);
  if (plan.work.hangs > 0) plan.hang_timeout = dice.between(3s, 8s);
  plan.exit_limit = dice.chance(0.2) ? dice.between(5s, 20s) : Duration(90s);
  plan.starts_again = dice.chance(0.5) ? 0.8 : 0.0;
  plan.join_timeout = meeting_bound(plan) + dice.between(10s, 60s);
  return plan;
}

Duration stopping_bound(const NodesPlan& plan) {
  // It finds its connection dead and makes another; a coordinator that was started again waits for
  // the others; and what the two say may be slow.
  const Duration limit = plan.session.rules.heartbeat_limit;
  const Duration told = limit + kConnectTimeout + kLongestRetry + limit + limit;
  return told + plan.session.grace + plan.kill_wait + 2s;
}

Duration meeting_bound(const NodesPlan& plan) {
  // Workers may have to be killed, and a hang has to be found. An agent that cannot report its
  // failure decides by itself only after a while.
  const Duration stops = plan.kill_wait + plan.hang_timeout * 3;
  return meeting_bound(plan.session) + (stops + kOtherNodesTurn) * 2 + kDecisionLimit;
}

Duration ending_bound(const NodesPlan& plan) {
  // A node that waits in vain gives up; the others meet, are done, and wait for each other. They
  // may have to do so twice, because a member of their last round may go meanwhile.
  const Duration part = plan.work.longest + plan.exit_limit + plan.join_timeout + plan.kill_wait +
                        plan.session.grace + kDecisionLimit + kCoordinatorLimit;
  return meeting_bound(plan) + part * 3;
}

std::string describe(const NodesPlan& plan) {
  const WorkPlan& work = plan.work;
  const RunRules& rules = plan.session.rules;
  return fmt::format(
      "{}; {} work, grace {}{}{}{}", describe(plan.session), work.is_long ? "long" : "short",
      seconds(plan.session.grace), work.hangs > 0 ? ", workers hang" : "",
      work.survives > 0 ? ", some cannot be killed" : "",
      rules.restart_window > Duration{} ? ", restarts count for " + seconds(rules.restart_window)
                                        : "");
}

}  // namespace regroup::sim
