#include "sim/session/session_plan.h"

#include <fmt/core.h>

#include <algorithm>

#include "sim/world/trace.h"

namespace regroup::sim {

using core::rendezvous::Settings;

namespace {

RunRules choose_rules(std::int64_t nodes, Dice& dice) {
  RunRules rules;
  const RoundSizes sizes = choose_sizes(nodes, dice);
  rules.min_nodes = sizes.min_nodes;
  rules.max_nodes = sizes.max_nodes;
  rules.last_call = dice.between(1, 6) * 1s;
  rules.heartbeat_limit = dice.between(1, 5) * 1s;
  rules.reconnect_grace = dice.chance(0.2) ? Duration{} : dice.between(1, 10) * 50ms;
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

enum class Kind { Session, Regroup, Torchrun };

// These have dice of their own: a run in which all nodes have a session is the same as it was
// before there were others.
std::vector<Kind> choose_kinds(const Options& options, std::int64_t nodes, Dice& dice) {
  std::vector<Kind> kinds(static_cast<std::size_t>(nodes), Kind::Session);
  const bool is_mixed = dice.chance(0.35);
  std::int64_t others = is_mixed ? dice.between(1, std::max<std::int64_t>(1, nodes - 1)) : 0;
  if (options.torchrun_nodes) others = *options.torchrun_nodes;
  others = std::min(others, nodes - 1);  // Without a session there is no coordinator.
  const double torchrun = options.torchrun_nodes ? 1.0 : dice.chance(0.3) ? 0.0 : 0.6;
  while (others > 0) {
    auto& kind = kinds[static_cast<std::size_t>(dice.between(0, nodes - 1))];
    if (kind != Kind::Session) continue;
    kind = dice.chance(torchrun) ? Kind::Torchrun : Kind::Regroup;
    --others;
  }
  return kinds;
}

Weather choose_weather(const SessionPlan& plan, Dice& dice) {
  Weather weather;
  weather.ends_for_good = plan.ends_for_good;
  weather.tries_again = dice.chance(0.5) ? 0.5 : 0.0;
  if (plan.faults == FaultLevel::None) return weather;
  const double badness = plan.faults == FaultLevel::Light ? 0.01 : 0.05;
  const auto some = [&](double most) { return dice.chance(0.5) ? 0.0 : most * badness; };
  choose_message_faults(weather, some);
  return weather;
}

// Moves the nodes without a session out of the plan's nodes.
void choose_others(SessionPlan& plan, const std::vector<Kind>& kinds, Dice& dice) {
  Plan& others = plan.others;
  others.has_torchrun = std::count(kinds.begin(), kinds.end(), Kind::Torchrun) > 0;
  others.clocks_in_step = others.has_torchrun;
  others.faults = plan.faults;
  plan.rules.last_call = dice.between(3, 6) * 1s;  // They look every second.
  others.settings = shared_settings(plan);
  others.settings.join_timeout = dice.chance(0.25) ? 30s : 60s;
  others.weather = choose_weather(plan, dice);
  others.request_timeout = dice.between(1, 5) * 1s;
  others.latest = others.settings.silence_limit() * 3 / 2;
  others.longest_fault = others.settings.silence_limit() * 3 / 2;
  others.restart_delay = plan.restart_delay;
  const auto in_step = [&dice] {
    return NodeClock(dice.between(1s, 1000000s), dice.between(Duration(-400ms), Duration(400ms)),
                     dice.between(-20, 20));
  };
  // The host writes the heartbeats of the nodes that have a session.
  if (others.clocks_in_step) plan.host_clock = in_step();
  std::vector<SessionNodePlan> nodes;
  for (std::size_t index = 0; index < kinds.size(); ++index) {
    SessionNodePlan& node = plan.nodes[index];
    if (kinds[index] == Kind::Session) {
      nodes.push_back(std::move(node));
      continue;
    }
    const bool is_torchrun = kinds[index] == Kind::Torchrun;
    others.nodes.push_back({.name = node.name,
                            .torchrun = is_torchrun,
                            .exits_first = is_torchrun,
                            .clock = others.clocks_in_step ? in_step() : node.clock,
                            .first_beat = is_torchrun ? 1 : 2,
                            .wish = {},
                            .starts = node.starts,
                            .seed = node.seed});
  }
  plan.nodes = std::move(nodes);
  others.seed = dice.seed();
}

// Groups have dice of their own, as nodes without a session do.
void choose_groups(SessionPlan& plan, std::optional<std::int64_t> segment, Dice& dice) {
  const bool has_groups = dice.chance(0.25);
  if (!segment && (!has_groups || is_mixed(plan))) return;
  RunRules& rules = plan.rules;
  rules.segment = segment.value_or(dice.between(1, 3));
  if (rules.segment == 0) return;
  const auto whole = [&rules](std::int64_t nodes) {
    return std::max<std::int64_t>(nodes / rules.segment, 1) * rules.segment;
  };
  rules.min_nodes = whole(rules.min_nodes);
  rules.max_nodes = whole(rules.max_nodes);
  const std::int64_t groups = dice.between(1, 3);
  for (SessionNodePlan& node : plan.nodes)
    node.group = fmt::format("rack-{}", dice.between(1, groups));
}

}  // namespace

SessionPlan make_session_plan(const Options& options) {
  Dice dice(options.seed ^ 0x5e5510);
  SessionPlan plan;
  const std::int64_t nodes = choose_node_count(options, dice);
  plan.faults = choose_faults(options, 4, dice);
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
    node.name = fmt::format("n{}", index);
    node.clock = clock();
    node.role = has_roles && dice.chance(0.5) ? "reader" : "trainer";
    node.workers = dice.between(1, 4);
    node.starts = dice.chance(0.7) ? dice.between(0s, 500ms) : dice.between(0s, 20s);
    node.seed = dice.seed();
    plan.nodes.push_back(std::move(node));
  }
  plan.seed = dice.seed();
  Dice others(options.seed ^ 0x07e4);
  std::vector<Kind> kinds = choose_kinds(options, nodes, others);
  if (options.segment.value_or(0) > 0) kinds.assign(kinds.size(), Kind::Session);
  if (std::count(kinds.begin(), kinds.end(), Kind::Session) < nodes)
    choose_others(plan, kinds, others);
  // A node without a session cannot say which group it is in, and is not let in.
  Dice groups(options.seed ^ 0x6409);
  choose_groups(plan, options.segment, groups);
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
  // The last pause has ended, what was down is there again (the host too), both ends of a dead
  // connection have noticed, and the next try has come through.
  const Duration back =
      plan.longest_fault + plan.restart_delay + limit + kConnectTimeout + kLongestRetry;
  // A missing node is found to be lost, workers have stopped, the last call is over.
  const Duration meeting = limit + plan.grace + plan.rules.last_call + 1s;
  if (!is_mixed(plan)) return back + meeting * 2;
  // Those without a session look every second, and what they saw a second ago is good enough. A
  // silent one is lost later than a node with a session.
  const Plan& others = plan.others;
  const Duration slow_meeting = meeting + 5s;
  const Duration swept = others.settings.silence_limit() + 2s;
  const Duration slow_back =
      std::max({back, others.longest_fault + others.restart_delay, others.latest});
  Duration bound = slow_back + swept + slow_meeting * 3 + others.restart_delay;
  // A torchrun node dies of each unanswered request and does not see its peers go; its workers do,
  // within ten seconds.
  if (others.has_torchrun) bound += 10s + others.restart_delay + slow_meeting * 2 + swept;
  return bound;
}

Duration ending_bound(const SessionPlan& plan) {
  const Duration bound = plan.grace + plan.rules.heartbeat_limit + 2s;
  // They look every second; torchrun's when their workers have failed for want of the others.
  return is_mixed(plan) ? bound + plan.rules.last_call + 20s : bound;
}

std::string describe(const SessionPlan& plan) {
  std::string others;
  for (const NodePlan& node : plan.others.nodes)
    others += (others.empty() ? "without a session: " : ", ") + node.name +
              (node.torchrun ? " (torchrun)" : "");
  if (!others.empty()) others += "; ";
  return fmt::format(
      "{} nodes, {}{}..{} in a round{}; faults {} for {}; last call {}, heartbeat limit {}, "
      "reconnect grace {}, {} restarts, grace {}, meeting within {}",
      plan.nodes.size() + plan.others.nodes.size(), others, plan.rules.min_nodes,
      plan.rules.max_nodes,
      plan.rules.segment > 0 ? fmt::format(", in groups of {}", plan.rules.segment) : "",
      to_string(plan.faults), seconds(plan.chaos), seconds(plan.rules.last_call),
      seconds(plan.rules.heartbeat_limit), seconds(plan.rules.reconnect_grace),
      plan.rules.max_restarts, seconds(plan.grace), seconds(meeting_bound(plan)));
}

}  // namespace regroup::sim
