#include "core/rendezvous/describe.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/text.h"

namespace regroup::core::rendezvous {
namespace {

// Naming more missing nodes than this helps nobody.
constexpr std::size_t kMostNamed = 16;

std::string range(const Settings& settings) {
  const std::string most = std::to_string(settings.max_nodes);
  return settings.min_nodes == settings.max_nodes ? most
                                                  : fmt::format("{}..{}", settings.min_nodes, most);
}

std::string missing(const Wait& wait) {
  std::multiset<std::string> here;
  for (const auto& [node, rank] : wait.state.participants) here.insert(name_of(wait.state, node));
  std::string names;
  std::size_t count = 0;
  for (const std::string& name : wait.expected) {
    if (const auto found = here.find(name); found != here.end()) {
      here.erase(found);
      continue;
    }
    if (++count <= kMostNamed) names += (count == 1 ? "" : ", ") + name;
  }
  if (count > kMostNamed) names += fmt::format(" and {} more", count - kMostNamed);
  return names.empty() ? names : "; missing: " + names;
}

}  // namespace

std::string name_of(const State& state, const NodeId& node) {
  const auto claim = state.claims.find(node);
  return claim == state.claims.end() || claim->second.name.empty() ? node.address
                                                                   : claim->second.name;
}

std::string describe_progress(const Wait& wait) {
  const State& state = wait.state;
  const std::string round = fmt::format("round {}", state.round);
  if (state.redundancy_list.contains(wait.self))
    return fmt::format(
        "{} is full with {}; this node is a spare and waits for one of them to leave", round,
        count_of(state.participants.size(), "node"));
  if (state.complete)
    return fmt::format("{} runs with {}; {} waiting for the next", round,
                       count_of(state.participants.size(), "node"),
                       count_of(state.wait_list.size(), "node"));
  std::string text = fmt::format("{}: {} of {} nodes joined", round, state.participants.size(),
                                 range(wait.settings));
  return text + missing(wait);
}

std::string describe_briefly(const Wait& wait) {
  const State& state = wait.state;
  if (state.redundancy_list.contains(wait.self))
    return "spare: waiting for one of " + count_of(state.participants.size(), "node") + " to leave";
  if (state.complete)
    return fmt::format("waiting for the round after {}, which runs with {}", state.round,
                       count_of(state.participants.size(), "node"));
  const std::string here =
      fmt::format("{} of {} here", state.participants.size(), range(wait.settings));
  return (wait.last_call_end ? "last call for nodes: " : "waiting for nodes: ") + here;
}

std::optional<Instant> end_of_wait(const Wait& wait) {
  if (wait.state.redundancy_list.contains(wait.self)) return {};
  return !wait.state.complete && wait.last_call_end ? *wait.last_call_end : wait.give_up;
}

std::string describe_limit(const Wait& wait) {
  const State& state = wait.state;
  if (state.redundancy_list.contains(wait.self)) return "";
  if (!state.complete && wait.last_call_end)
    return "; last call ends in " +
           in_words(std::max(Duration::zero(), *wait.last_call_end - wait.now));
  return "; gives up in " + in_words(std::max(Duration::zero(), wait.give_up - wait.now)) +
         " (join_timeout)";
}

}  // namespace regroup::core::rendezvous
