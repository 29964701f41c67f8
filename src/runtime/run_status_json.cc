#include "runtime/run_status_json.h"

#include <chrono>
#include <cstdio>
#include <string_view>

#include "base/json_text.h"

namespace regroup::runtime {
namespace {

using core::coordinator::NodeStatus;
using core::coordinator::RunStatus;

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

std::string in_seconds(Duration duration) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3f", std::chrono::duration<double>(duration).count());
  return text;
}

std::string json_of(const NodeStatus& node) {
  JsonObject json;
  json.add("name", node.name).add("address", node.address).add("place", word_of(node.place));
  if (node.rank)
    json.add("rank", *node.rank);
  else
    json.null("rank");
  return json.add("workers", node.workers)
      .add("connected", node.connected)
      .add("has_session", node.has_session)
      .raw("silent_for", in_seconds(node.silent_for))
      .text();
}

std::string json_of(const RunStatus& run);

template <class Things>
std::string list_of(const Things& things) {
  std::string list = "[";
  for (const auto& thing : things) {
    if (list.size() > 1) list += ", ";
    list += json_of(thing);
  }
  return list + "]";
}

std::string json_of(const RunStatus& run) {
  return JsonObject()
      .add("run_id", run.run_id)
      .add("round", run.round)
      .add("sealed", run.sealed)
      .add("closed", run.closed)
      .add("succeeded", run.succeeded)
      .add("min_nodes", run.rules.min_nodes)
      .add("max_nodes", run.rules.max_nodes)
      .add("restarts", run.restarts)
      .add("max_restarts", run.rules.max_restarts)
      .add("awaited", run.awaited)
      .add("last_verdict", run.last_verdict)
      .raw("nodes", list_of(run.nodes))
      .text();
}

std::string json_of(const CoordinatorCounters& counters) {
  return JsonObject()
      .add("sessions_ever", counters.sessions_ever)
      .add("messages_in", counters.messages_in)
      .add("messages_out", counters.messages_out)
      .add("bytes_in", counters.bytes_in)
      .add("bytes_out", counters.bytes_out)
      .add("refused", counters.refused)
      .text();
}

}  // namespace

std::string run_status_json(const std::vector<RunStatus>& runs,
                            const CoordinatorCounters& counters) {
  return JsonObject()
      .add("version", 1)
      .add("sessions", counters.sessions)
      .raw("counters", json_of(counters))
      .raw("runs", list_of(runs))
      .text();
}

}  // namespace regroup::runtime
