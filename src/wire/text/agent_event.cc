#include "wire/text/agent_event.h"

#include <cstdio>
#include <optional>

#include "base/json_text.h"

namespace regroup::wire {
namespace {

template <class Value>
void add_or_null(JsonObject& object, std::string_view name, const std::optional<Value>& value) {
  if (value)
    object.add(name, *value);
  else
    object.null(name);
}

std::string list_of(const std::string& json) { return "[" + json + "]"; }

// As torchrun writes it: every value is a string.
std::string watchdog_metadata(const EventRecord::Watchdog& watchdog) {
  JsonObject inner;
  inner.add("watchdog_event", watchdog.event);
  if (watchdog.pid == 0) return inner.text();
  char time[64];
  std::snprintf(time, sizeof time, "%.6f", watchdog.expires_at);
  return inner.add("worker_pid", std::to_string(watchdog.pid))
      .add("scope_id", watchdog.scope)
      .add("expiration_time", time)
      .add("signal", std::to_string(watchdog.signal))
      .text();
}

std::string inner_metadata(const EventRecord& event) {
  if (event.watchdog) return watchdog_metadata(*event.watchdog);
  JsonObject inner;
  add_or_null(inner, "group_world_size", event.group_world_size);
  inner.add("entry_point", event.entry_point);
  if (const auto& worker = event.worker) {
    inner.raw("local_rank", list_of(std::to_string(worker->local_rank)));
    inner.raw("role_rank", list_of(std::to_string(worker->role_rank)));
    inner.raw("role_world_size", list_of(std::to_string(worker->role_world_size)));
    // torchrun gives both only for a worker that has failed.
    const bool failed = worker->exit_code.has_value();
    inner.raw("exit_code", list_of(failed ? std::to_string(*worker->exit_code) : "null"));
    inner.raw("worker_pid", list_of(failed ? std::to_string(worker->pid) : "null"));
  }
  return inner.text();
}

}  // namespace

std::string encode_event(const EventRecord& event) {
  JsonObject metadata;
  metadata.add("run_id", event.run_id);
  if (event.worker) {
    metadata.add("global_rank", event.worker->global_rank);
  } else {
    metadata.null("global_rank");
  }
  add_or_null(metadata, "group_rank", event.group_rank);
  if (event.worker) {
    metadata.add("worker_id", std::to_string(event.worker->pid));
  } else {
    metadata.null("worker_id");
  }
  metadata.add("role", event.role);
  metadata.add("hostname", event.host);
  metadata.add("state", event.state);
  metadata.add("total_run_time", event.total_run_seconds);
  metadata.add("rdzv_backend", event.rendezvous_backend);
  add_or_null(metadata, "raw_error", event.error);
  metadata.add("metadata", inner_metadata(event));
  metadata.add("agent_restarts", event.restarts);
  if (event.watchdog) {
    // torchrun has no such key here.
  } else if (event.took) {
    metadata.add("duration_ms", static_cast<double>(event.took->count()) / 1e6);
  } else {
    metadata.null("duration_ms");
  }
  return JsonObject()
      .add("name",
           event.watchdog ? event.watchdog->event : std::string(kEventNamePrefix) + event.state)
      .add("source", event.source == EventRecord::Source::Agent ? "AGENT" : "WORKER")
      .add("timestamp", event.time_millis)
      .raw("metadata", metadata.text())
      .text();
}

std::string encode_metric(const MetricRecord& metric) {
  return JsonObject()
      .add("timestamp", static_cast<double>(metric.time_micros) / 1e6)
      .add("group_name", metric.group)
      .add("name", metric.name)
      .add("value", metric.value)
      .text();
}

namespace {

std::string_view name_of(RendezvousRecord::NodeState state) {
  switch (state) {
    case RendezvousRecord::NodeState::Init:
      return "INIT";
    case RendezvousRecord::NodeState::Running:
      return "RUNNING";
    case RendezvousRecord::NodeState::Succeeded:
      return "SUCCEEDED";
    case RendezvousRecord::NodeState::Failed:
      return "FAILED";
  }
  return "";
}

}  // namespace

std::string encode_rendezvous_event(const RendezvousRecord& record) {
  JsonObject object;
  object.add("name", record.name)
      .add("run_id", record.run_id)
      .add("message", record.message)
      .add("hostname", record.host)
      .add("pid", record.pid)
      .add("node_state", name_of(record.state))
      .add("master_endpoint", "");  // torchrun never fills it in either.
  add_or_null(object, "rank", record.rank);
  add_or_null(object, "local_id", record.local_id);
  return object.add("error_trace", record.error).text();
}

std::string error_data_of(int exit_code) {
  JsonObject data;
  data.add("message", "<NONE>");
  if (exit_code >= 0)
    data.raw("errorTraits", JsonObject()
                                .add("category", "system_terminated_error")
                                .add("retryability", "False")
                                .text());
  return data.text();
}

}  // namespace regroup::wire
