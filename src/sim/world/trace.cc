#include "sim/world/trace.h"

#include <fmt/core.h>

#include <array>
#include <cstdio>
#include <vector>

namespace regroup::sim {

using core::rendezvous::NodeId;
using core::rendezvous::Settings;
using core::rendezvous::State;

void Trace::line(Instant at, std::string_view who, std::string_view text) const {
  if (!on()) return;
  std::array<char, 48> front{};
  std::snprintf(front.data(), front.size(), "%9.3f  %-6.*s ",
                static_cast<double>(at.since_start.count()) * 1e-9, static_cast<int>(who.size()),
                who.data());
  sink_(std::string(front.data()) + std::string(text));
}

std::string short_name(const NodeId& node) {
  return node.pid == 1 ? node.address : fmt::format("{}/{}", node.address, node.pid);
}

std::string seconds(Duration duration) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f s", static_cast<double>(duration.count()) * 1e-9);
  return text.data();
}

std::string describe(const State& state, const Settings& settings) {
  std::string text = fmt::format("round {}: ", state.round);
  if (state.complete) {
    text += "sealed ";
    std::vector<std::string> seats(state.participants.size());
    std::string odd;
    for (const auto& [node, rank] : state.participants) {
      const std::string seat = fmt::format("{}={}", short_name(node), rank);
      if (rank >= 0 && rank < static_cast<std::int64_t>(seats.size()) &&
          seats[static_cast<std::size_t>(rank)].empty()) {
        seats[static_cast<std::size_t>(rank)] = seat;
      } else {
        odd += " " + seat;
      }
    }
    for (const std::string& seat : seats)
      if (!seat.empty()) text += " " + seat;
    text += odd;
  } else {
    text += fmt::format("{} of {}..{} joined", state.participants.size(), settings.min_nodes,
                        settings.max_nodes);
    if (state.deadline) text += ", last call";
  }
  if (!state.wait_list.empty()) text += fmt::format(", {} waiting", state.wait_list.size());
  if (!state.redundancy_list.empty())
    text += fmt::format(", {} spare", state.redundancy_list.size());
  if (state.closed) text += ", closed";
  return text;
}

std::string describe_change(const State& before, const State& after, const NodeId& writer) {
  std::string text;
  const auto add = [&](std::string_view words) {
    if (!text.empty()) text += ", ";
    text += words;
  };
  const auto is_new = [&](const auto& old_list, const auto& new_list) {
    return new_list.contains(writer) && !old_list.contains(writer);
  };
  for (const auto& [node, stamp] : before.last_heartbeats)
    if (node != writer && !after.last_heartbeats.contains(node)) add("drops " + short_name(node));
  if (is_new(before.participants, after.participants)) add("joins the round");
  if (is_new(before.wait_list, after.wait_list)) add("waits");
  if (is_new(before.redundancy_list, after.redundancy_list)) add("is a spare");
  if (before.participants.contains(writer) && !after.participants.contains(writer))
    add("leaves the round");
  if (before.wait_list.contains(writer) && !after.last_heartbeats.contains(writer))
    add("waits no longer");
  if (before.redundancy_list.contains(writer) && !after.redundancy_list.contains(writer))
    add("is no spare any more");
  if (after.complete && (!before.complete || before.round != after.round)) add("seals");
  if (after.closed && !before.closed) add("closes the run");
  if (text.empty()) add("heartbeat");
  return text;
}

}  // namespace regroup::sim
