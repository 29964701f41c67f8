// How a run stands, for people.
#include <algorithm>
#include <utility>

#include "core/coordinator/coordinator.h"

namespace regroup::core::coordinator {

using namespace rendezvous;

std::string_view word_of(NodeStatus::Place place) {
  switch (place) {
    case NodeStatus::Place::Idle:
      return "idle";
    case NodeStatus::Place::Member:
      return "member";
    case NodeStatus::Place::Done:
      return "done";
    case NodeStatus::Place::Joined:
      return "joined";
    case NodeStatus::Place::Waiting:
      return "waiting";
    case NodeStatus::Place::Spare:
      return "spare";
  }
  return "";
}

RunStatus Coordinator::status(Now now) const {
  RunStatus status{.run_id = settings_.run_id,
                   .round = state_.round,
                   .sealed = state_.complete,
                   .closed = state_.closed,
                   .succeeded = succeeded_,
                   .rules = rules_,
                   .restarts = restarts_,
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
  // While a round is open whoever is not in it has no whole group yet.
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
    if (has_segments()) status.awaited += broken_groups();
    if (wait.last_call_end) status.awaited += describe_limit(wait);
  }
  if (!state_.closed && state_.complete && !is_running())
    status.awaited = "round " + std::to_string(state_.round) + " is being stopped: " + stop_.text;
  return status;
}

}  // namespace regroup::core::coordinator
