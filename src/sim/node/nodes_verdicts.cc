// What must have become of a run of whole nodes once the faults have stopped, and of each node that
// has ended.
#include <fmt/core.h>

#include <algorithm>

#include "sim/node/nodes_world.h"

namespace regroup::sim {

using core::agent::Doing;
using AgentEnding = core::agent::Ending;

void NodesWorld::ended(std::int32_t index, const NodeEnd& end) {
  ends_.push_back(end);
  luck(index).awaited = false;
  check_end(end);
  const bool again = end.ending == AgentEnding::Signalled && dice_.chance(nodes_plan_.starts_again);
  luck(index).stays_down = !again;
  if (again && is_stormy()) start_after(index, dice_.between(Duration(1ms), Duration(5s)));
}

void NodesWorld::check_end(const NodeEnd& end) {
  const std::string name = short_name(end.id) + ": ";
  if (must_succeed_ && end.ending != AgentEnding::Succeeded && end.ending != AgentEnding::NotNeeded)
    invariants_.violated(fmt::format(
        "{}ends with {} though nothing has gone wrong since all had met", name, end.exit_code));
  switch (end.ending) {
    case AgentEnding::Failed:
      return check_failed(end);
    case AgentEnding::CouldNotJoin: {
      const bool waited = end.joined_for.value_or(Duration{}) >=
                          nodes_plan_.join_timeout - nodes_plan_.join_timeout / 500;
      if (!waited && !end.was_refused && !end.run_was_over)
        invariants_.violated(name + "gives up joining too early");
      return;
    }
    case AgentEnding::NotNeeded:
      if (!end.run_was_over) invariants_.violated(name + "is not needed in a run that goes on");
      return;
    case AgentEnding::Succeeded:
    case AgentEnding::Signalled:
    case AgentEnding::CouldNotStart:
    case AgentEnding::LeftBehind:
      return;
  }
}

void NodesWorld::check_failed(const NodeEnd& end) {
  const std::string name = short_name(end.id) + ": ";
  if (!end.run_failed) {
    // No coordinator was there to decide, and its own worker has failed.
    if (end.exit_code == 73) invariants_.violated(name + "says that the run has failed elsewhere");
    return;
  }
  const NodeEnd::RunFailed& told = *end.run_failed;
  if (told.is_ours == (end.exit_code == 73))
    invariants_.violated(fmt::format("{}ends with {}, and the failure was {}", name, end.exit_code,
                                     told.is_ours ? "its own" : "another's"));
  if (!told.is_ours && end.verdict != told.text)
    invariants_.violated(
        fmt::format("{}names another verdict than it was told: {}", name, end.verdict));
  const auto [first, is_first] = verdicts_.try_emplace(told.life, told.text);
  if (!is_first && first->second != told.text)
    invariants_.violated(fmt::format("two verdicts of the run: {}; {}", first->second, told.text));
}

bool NodesWorld::all_are_gone() const {
  for (std::int32_t index = 0; index < count(); ++index)
    if (any(index).is_running() || (luck(index).is_coming && !luck(index).stays_down)) return false;
  return true;
}

// How many nodes can be in a round.
std::int64_t NodesWorld::seats() const {
  return std::min(in_whole_groups({}), plan_.rules.max_nodes);
}

// Long work only: one round of as many live nodes as it may have, whose workers run; the others are
// spares.
std::optional<std::string> NodesWorld::why_not_met() const {
  const auto* coordinator = host_.coordinator();
  if (coordinator == nullptr) return "there is no coordinator";
  const core::rendezvous::State& state = coordinator->state();
  const std::string there = describe(state, shared_settings(plan_));
  if (!state.complete) return "the round is still open: " + there;
  if (static_cast<std::int64_t>(state.participants.size()) != seats())
    return fmt::format("the round should have {} members: {}", seats(), there);
  for (const WholeNode& one : nodes_) {
    if (!one.is_running()) continue;
    if (!state.participants.contains(one.id())) {
      if (!one.is_spare()) return short_name(one.id()) + " does not know that it is spare";
      continue;
    }
    if (one.agent()->doing() != Doing::Running || one.runs() != state.round)
      return fmt::format("{} does not run the workers of the round, but is {}",
                         short_name(one.id()), to_string(one.agent()->doing()));
  }
  return std::nullopt;
}

void NodesWorld::must_have_met() {
  if (invariants_.violation()) return;
  const bool is_over = host_.coordinator() != nullptr && host_.coordinator()->is_over();
  const bool can_meet =
      nodes_plan_.work.is_long && !is_over && seats() >= plan_.rules.min_nodes && !all_are_gone();
  if (can_meet) {
    if (const auto why = why_not_met())
      return invariants_.violated(fmt::format("the nodes have not met {} after the last fault: {}",
                                              seconds(meeting_bound(nodes_plan_)), *why));
    // An agent that was told to end by a signal does so. And a node that is done waits for the
    // others only so long.
    must_succeed_ = nodes_plan_.exit_limit > nodes_plan_.work.longest + 5s;
    for (const WholeNode& one : nodes_) must_succeed_ = must_succeed_ && !one.was_signalled();
    trace_.line(now(), "world", "all have met; now the work is done");
  }
  stage_ = Stage::Ending;
  for (WholeNode& one : nodes_) one.be_done();
}

void NodesWorld::must_have_ended() {
  if (stage_ == Stage::Over) return;
  for (const WholeNode& one : nodes_)
    if (one.is_running())
      return invariants_.violated(
          fmt::format("{} has not ended {} after the last fault: it is {}", short_name(one.id()),
                      seconds(ending_bound(nodes_plan_)), to_string(one.agent()->doing())));
  for (const WholeNode& one : nodes_)
    if (one.living() > 0) return invariants_.violated(short_name(one.id()) + " has left workers");
  const Duration took = now() - calm_since_;
  totals_.nearest_to_bound =
      static_cast<double>(took.count()) / static_cast<double>(ending_bound(nodes_plan_).count());
  stage_ = Stage::Over;
}

}  // namespace regroup::sim
