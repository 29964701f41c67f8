// How a run stands, for people.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "core/coordinator/coordinator.h"

namespace regroup::core::coordinator {

using namespace rendezvous;
using run::NodeStatus;
using run::RunStatus;

RunStatus Coordinator::status(Now now) const {
  RunStatus status{.run_id = settings_.run_id,
                   .round = state_.round,
                   .sealed = state_.complete,
                   .closed = state_.closed,
                   .succeeded = succeeded_,
                   .rules = rules_,
                   .restarts = budget_.restarts(),
                   .awaited = {},
                   .last_verdict = last_verdict_,
                   .nodes = {}};
  const auto add = [&](const NodeId& id, NodeStatus::Place place,
                       std::optional<std::int64_t> rank) {
    NodeStatus one{
        .name = name_of(state_, id), .address = id.address, .place = place, .rank = rank};
    const auto found = nodes_.find(id);
    one.has_session = found != nodes_.end();
    if (one.has_session) {
      const Node& node = found->second;
      one.name = node.claim.name;
      one.workers = node.workers;
      one.group = node.claim.group;
      one.connected = node.session.has_value();
      one.silent_for = now.instant - node.heard;
      if (node.doing == Doing::Done && place == NodeStatus::Place::Member)
        one.place = NodeStatus::Place::Done;
    }
    status.nodes.push_back(std::move(one));
  };
  for (const auto& [id, rank] : state_.participants)
    if (state_.complete)
      add(id, NodeStatus::Place::Member, rank);
    else
      add(id, NodeStatus::Place::Joined, {});
  for (const NodeId& id : state_.wait_list) add(id, NodeStatus::Place::Waiting, {});
  // While a round is open, a node that is not in it is in a group that is not whole yet.
  const auto spare = state_.complete ? NodeStatus::Place::Spare : NodeStatus::Place::Waiting;
  for (const NodeId& id : state_.redundancy_list) add(id, spare, {});
  for (const auto& [id, node] : nodes_)
    if (!state_.participants.contains(id) && !state_.wait_list.contains(id) &&
        !state_.redundancy_list.contains(id))
      add(id, NodeStatus::Place::Idle, {});
  std::stable_sort(
      status.nodes.begin(), status.nodes.end(), [](const NodeStatus& a, const NodeStatus& b) {
        return std::pair(!a.rank, a.rank.value_or(0)) < std::pair(!b.rank, b.rank.value_or(0));
      });
  if (!state_.closed && !state_.complete) {
    const NodeId nobody;
    const Wait wait = waiting(nobody, now.instant);
    status.awaited = describe_progress(wait);
    if (segments_.are_wanted()) status.awaited += segments_.describe_broken(standings());
    if (wait.last_call_end) status.awaited += describe_limit(wait);
  }
  if (!state_.closed && state_.complete && !is_running()) status.awaited = describe_stopping();
  return status;
}

Wait Coordinator::waiting(const NodeId& self, Instant now) const {
  return {.state = state_,
          .self = self,
          .settings = settings_,
          .now = now,
          .give_up = now + kLongest,
          .last_call_end = last_call_.end(),
          .expected = last_round_.names()};
}

std::string Coordinator::describe_stopping() const {
  return fmt::format("round {} is being stopped: {}", state_.round, last_round_.why_stopped().text);
}

void Coordinator::tell_progress(Now now, Effects& effects) {
  progress_.is_told(now.instant);
  // What it says depends on the list a node is on and on its group, and not on the node.
  std::map<std::pair<bool, std::string>, Progress> said;
  std::optional<std::string> of_round;
  for (const auto& [id, node] : nodes_) {
    if (node.doing != Doing::Joining) continue;
    const bool is_spare = state_.redundancy_list.contains(id);
    const auto [found, is_new] =
        said.try_emplace({is_spare, is_spare && segments_.are_wanted() ? node.claim.group : ""});
    if (is_new) found->second = progress_of(node, now.instant, of_round);
    send(node, found->second, effects);
  }
}

std::string Coordinator::dropped_text() const { return "this node was dropped from the round"; }

Progress Coordinator::progress_of(const Node& node, Instant now,
                                  std::optional<std::string>& of_round) const {
  const Wait wait = waiting(node.id, now);
  const bool is_spare = state_.redundancy_list.contains(node.id);
  const bool is_stopping = state_.complete && !is_running();
  Progress progress{.text = {}, .brief = {}, .last_call = {}, .spare = is_spare};
  if (wait.last_call_end && !state_.complete)
    progress.last_call = std::max(*wait.last_call_end - now, Duration{});
  const auto members = static_cast<std::int64_t>(state_.participants.size());
  const std::int64_t odd =
      segments_.are_wanted() ? segments_.odd_in(node.claim.group, standings()) : 0;
  if (!is_spare && a_member_is_done()) {
    const std::string why = "other nodes are done, and this node comes in only if a worker fails";
    progress.text = fmt::format("round {}: {}", state_.round, why);
    progress.brief = why;
    progress.spare = true;
    return progress;
  }
  if (!is_spare || odd == 0 || members + rules_.segment > rules_.max_nodes) {
    progress.text = describe_progress(wait);
    progress.brief = describe_briefly(wait);
    if (is_spare || !is_stopping) return progress;
    progress.text = describe_stopping();
    progress.brief = fmt::format("waiting for round {} to be stopped", state_.round);
    return progress;
  }
  const NodeId nobody;
  if (!of_round)
    of_round = is_stopping ? describe_stopping()
               : state_.complete
                   ? fmt::format("round {} runs with {}", state_.round, count_of(members, "node"))
                   : describe_progress(waiting(nobody, now));
  const std::string of_group =
      fmt::format("{} of {} nodes of group {} here", odd, rules_.segment, node.claim.group);
  progress.text = *of_round + "; this node waits for its group: " + of_group;
  progress.brief = "waiting for the group: " + of_group;
  // While a round runs it is a spare like any other; before that, its join timeout is what it waits
  // for.
  progress.spare = state_.complete;
  return progress;
}

}  // namespace regroup::core::coordinator
