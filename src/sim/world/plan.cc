#include "sim/world/plan.h"

#include <fmt/core.h>

#include <algorithm>

#include "sim/world/trace.h"

namespace regroup::sim {
namespace {

using core::rendezvous::Settings;

Settings choose_settings(std::int64_t nodes, bool has_torchrun, Dice& dice) {
  Settings settings;
  settings.run_id = "sim";
  const RoundSizes sizes = choose_sizes(nodes, dice);
  settings.min_nodes = sizes.min_nodes;
  settings.max_nodes = sizes.max_nodes;
  settings.join_timeout = dice.chance(0.25) ? 30s : 60s;
  settings.last_call_timeout = dice.between(3, 6) * 1s;  // Every node looks each second.
  settings.close_timeout = 30s;
  settings.heartbeat_timeout = dice.between(1, 5) * 1s;
  settings.keep_alive_interval = dice.between(1, 5) * 1s;
  settings.keep_alive_attempts = dice.between(2, 3);
  // From the last heartbeat of a join to the first after it may be almost two intervals: torchrun's
  // nodes drop each other for that if they are given only two.
  if (has_torchrun) settings.keep_alive_attempts = 3;
  return settings;
}

Weather choose_weather(FaultLevel level, Dice& dice) {
  Weather weather;
  weather.ends_for_good = 0.2;
  weather.tries_again = dice.chance(0.5) ? 0.5 : 0.0;
  if (level == FaultLevel::None) return weather;
  const double badness = level == FaultLevel::Light ? 0.01 : 0.08;
  // Not everything at once in every run: a fault shows best in otherwise good weather.
  const auto some = [&](double most) {
    return dice.chance(0.4) ? 0.0
                            : most * badness * static_cast<double>(dice.between(1, 100)) / 100;
  };
  choose_message_faults(weather, some);
  weather.between_faults =
      level == FaultLevel::Light ? dice.between(10s, 60s) : dice.between(2s, 12s);
  return weather;
}

NodePlan choose_node(std::int64_t index, const Plan& plan, Dice& dice) {
  NodePlan node;
  node.name = fmt::format("n{}", index);
  const Duration apart = plan.clocks_in_step ? Duration(400ms) : Duration(10min);
  node.clock = NodeClock(
      dice.between(1s, 1000000s), dice.between(-apart, apart),
      plan.clocks_in_step ? dice.between(-20, 20) : dice.between(-kMostDriftPpm, kMostDriftPpm));
  if (dice.chance(0.15)) node.wish = dice.between(0, 4);
  node.starts = dice.chance(0.7) ? dice.between(0s, 500ms) : dice.between(0s, 20s);
  node.seed = dice.seed();
  return node;
}

std::int64_t choose_torchrun(const Options& options, std::int64_t nodes, Dice& dice) {
  // Drawn in any case, so that the flag changes nothing else of the plan.
  const bool mixed = dice.chance(0.2);
  const std::int64_t some = dice.between(1, nodes);
  if (options.broken == Broken::WallClocks || options.broken == Broken::NoWholeCheck) return nodes;
  if (options.torchrun_nodes) return std::min(*options.torchrun_nodes, nodes);
  return mixed ? some : 0;
}

}  // namespace

std::int64_t choose_node_count(const Options& options, Dice& dice) {
  // Drawn in any case, so that the flag changes nothing else of the plan.
  const std::int64_t drawn = dice.chance(0.1) ? dice.between(1, 12) : dice.between(2, 6);
  return options.nodes.value_or(drawn);
}

FaultLevel choose_faults(const Options& options, std::int64_t light, Dice& dice) {
  const std::int64_t roll = dice.between(0, 9);
  if (options.faults) return *options.faults;
  return roll == 0 ? FaultLevel::None : roll < light ? FaultLevel::Light : FaultLevel::Heavy;
}

RoundSizes choose_sizes(std::int64_t nodes, Dice& dice) {
  RoundSizes sizes;
  switch (dice.between(0, 4)) {
    case 0:  // All or nothing.
      sizes.min_nodes = sizes.max_nodes = nodes;
      break;
    case 1:  // Elastic downwards.
      sizes.max_nodes = nodes;
      sizes.min_nodes = dice.between(1, nodes);
      break;
    case 2:  // Spares.
      sizes.max_nodes = dice.between(std::max<std::int64_t>(1, nodes / 2), nodes);
      sizes.min_nodes = dice.between(1, sizes.max_nodes);
      break;
    case 3:  // Never full.
      sizes.max_nodes = nodes + dice.between(1, 3);
      sizes.min_nodes = dice.between(1, nodes);
      break;
    default:  // Spares, and a fixed size.
      sizes.min_nodes = sizes.max_nodes = std::max<std::int64_t>(1, nodes - dice.between(0, 2));
  }
  return sizes;
}

void choose_message_faults(Weather& weather, const std::function<double(double most)>& some) {
  weather.lose_request = some(1.0);
  weather.lose_answer = some(1.0);
  weather.double_request = some(2.0);
  weather.slow = some(3.0);
  weather.very_late = some(1.0);
  weather.lose_wake = some(5.0);
  weather.late_wake = some(5.0);
}

Plan make_plan(const Options& options) {
  Dice dice(options.seed);
  Plan plan;
  const std::int64_t nodes = choose_node_count(options, dice);
  plan.faults = choose_faults(options, 5, dice);
  const std::int64_t torchrun = choose_torchrun(options, nodes, dice);
  plan.has_torchrun = torchrun > 0;
  plan.clocks_in_step = plan.has_torchrun && options.broken != Broken::WallClocks;
  plan.settings = choose_settings(nodes, plan.has_torchrun, dice);
  plan.weather = choose_weather(plan.faults, dice);
  plan.closes_early = dice.chance(0.05);
  plan.closes = dice.chance(0.5);
  plan.chaos = plan.faults == FaultLevel::None ? Duration(1s) : dice.between(20s, 150s);
  plan.request_timeout = dice.chance(0.5) ? dice.between(1, 3) * 1s : dice.between(3, 10) * 1s;
  plan.latest = plan.settings.silence_limit() * 3 / 2;
  plan.longest_fault = plan.settings.silence_limit() * 2;
  plan.restart_delay = 5s;

  std::vector<bool> is_torchrun(static_cast<std::size_t>(nodes), false);
  for (std::int64_t left = torchrun; left > 0;) {
    const auto at = static_cast<std::size_t>(dice.between(0, nodes - 1));
    if (is_torchrun[at]) continue;
    is_torchrun[at] = true;
    --left;
  }
  const bool exit_first = dice.chance(0.25);
  for (std::int64_t index = 0; index < nodes; ++index) {
    NodePlan node = choose_node(index, plan, dice);
    node.torchrun = is_torchrun[static_cast<std::size_t>(index)];
    if (node.torchrun || options.broken == Broken::LateFirstBeat) node.first_beat = 1;
    node.exits_first = node.torchrun || exit_first;
    plan.nodes.push_back(std::move(node));
  }
  plan.seed = dice.seed();
  return plan;
}

Duration meeting_bound(const Plan& plan) {
  const Settings& settings = plan.settings;
  // A trainer looks every second and may find what it saw a second ago good enough; then it leaves,
  // joins, and the round waits for the last call; a node that waits looks every second too.
  const Duration meeting = 2s + 1s + settings.last_call_timeout + 1s + 1s;
  // Every node has reached the store again: its last request of the storm has been answered or
  // given up, and its rest after that is over; the last pause has ended. Processes that ended are
  // back.
  const Duration back =
      std::max(plan.longest_fault, plan.request_timeout + 1s) + plan.restart_delay;
  // A node that died is dropped: its silence counts from when the observer first looked.
  const Duration swept = settings.silence_limit() + settings.silence_limit() / 1000 + 2s;
  // Three meetings: one that still counted on a dead node, one that a node with an old limit missed
  // because its join ended and was begun anew, and the one that stays.
  Duration bound = back + swept + meeting * 3 + plan.restart_delay;
  // A torchrun node dies of each unanswered request and does not see its peers go; its workers do,
  // within ten seconds.
  if (plan.has_torchrun) bound += 10s + plan.restart_delay + meeting * 2 + swept;
  return bound;
}

Duration closing_bound(const Plan& plan) {
  // The closer is between two operations within a second and wins its swap within another; the
  // others look within two.
  return plan.has_torchrun ? 20s : 5s;
}

std::string describe(const Plan& plan) {
  const Settings& settings = plan.settings;
  std::string text = fmt::format(
      "{} nodes, {}..{} in a round; faults {} for {}; join {}, last call {}, silence {}, answers "
      "within {}, meeting within {}",
      plan.nodes.size(), settings.min_nodes, settings.max_nodes, to_string(plan.faults),
      seconds(plan.chaos), seconds(settings.join_timeout), seconds(settings.last_call_timeout),
      seconds(settings.silence_limit()), seconds(plan.request_timeout),
      seconds(meeting_bound(plan)));
  if (plan.has_torchrun) {
    text += "; torchrun:";
    for (const NodePlan& node : plan.nodes)
      if (node.torchrun) text += " " + node.name;
  }
  return text;
}

}  // namespace regroup::sim
