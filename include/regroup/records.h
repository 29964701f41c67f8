// The records for monitoring a run: torchrun's events and metrics, under its names, as
// docs/events.md lists them. An agent passes them to AgentOptions::on_event.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "regroup/time.h"

namespace regroup {

struct EventRecord {
  enum class Source { Agent, Worker };
  struct Worker {
    int local_rank = 0;
    int global_rank = 0;
    int role_rank = 0;
    int role_world_size = 1;
    std::int64_t pid = 0;
    std::optional<int> exit_code = {};  // Of a worker that failed; as Python gives it.
    friend bool operator==(const Worker&, const Worker&) = default;
  };

  // What the watchdog has done; the timer is that of the last two.
  struct Watchdog {
    // "watchdog started", "watchdog stopped", "timer expired", "kill worker process".
    std::string event;
    std::int64_t pid = 0;  // 0: no timer.
    std::string scope = {};
    double expires_at = 0;  // Seconds since 1970.
    int signal = 0;
    friend bool operator==(const Watchdog&, const Watchdog&) = default;
  };

  // RENDEZVOUS, ASSIGN_WORKER_RANKS, SUCCEEDED, FAILED of the agent; START, SUCCEEDED, FAILED,
  // TERMINATED of a worker; RUNNING of the watchdog. The event's name is
  // "torchelastic.worker.status." and the state; for the watchdog it is what it has done.
  std::string state;
  Source source = Source::Agent;
  std::int64_t time_millis = 0;  // Since 1970.
  std::string run_id = {};
  std::string role = {};
  std::string host = {};
  std::string rendezvous_backend = {};
  std::string entry_point = {};  // The program that a worker runs, without its folder.
  // Of the round that this node was in when it happened; empty: it was in none yet.
  std::optional<std::int64_t> group_rank = {};
  std::optional<std::int64_t> group_world_size = {};
  int restarts = 0;                    // So far.
  std::int64_t total_run_seconds = 0;  // Of the events at the end; 0 before.
  // Of a worker: the JSON of its error file, or of an empty one.
  std::optional<std::string> error = {};
  std::optional<Duration> took = {};
  std::optional<Worker> worker = {};  // Of the source Worker.
  std::optional<Watchdog> watchdog = {};
};

struct MetricRecord {
  std::string group = "torchelastic";  // "regroup": ours.
  std::string name;
  std::int64_t value = 0;
  std::int64_t time_micros = 0;  // Since 1970.
};

// One step of a rendezvous with the c10d backend, as torchrun records it (its RdzvEvent), under its
// names. With a session (docs/rendezvous.md) a node takes fewer of them: the coordinator does the
// rest.
struct RendezvousRecord {
  enum class NodeState { Init, Running, Succeeded, Failed };
  enum class Level { Debug, Info, Warning };  // At which torchrun logs the message.
  std::string name;  // "dynamic_rendezvous.py:DynamicRendezvousHandler.next_rendezvous"
  std::string run_id;
  std::string message;  // For people.
  std::string host;     // This node's address, as the others know it.
  std::int64_t pid = 0;
  NodeState state = NodeState::Running;
  Level level = Level::Debug;
  std::optional<std::int64_t> rank = {};      // Of the node, once it has joined.
  std::optional<std::int64_t> local_id = {};  // Tells apart the handlers of one process.
  std::string error = {};                     // Of NodeState::Failed: what went wrong.
};

// One line without its end. An event has the keys of torchrun's, in its order.
std::string to_json(const EventRecord& event);
std::string to_json(const RendezvousRecord& record);
// The fields of torchrun's MetricData: timestamp (seconds), group_name, name, value.
std::string to_json(const MetricRecord& metric);

}  // namespace regroup
