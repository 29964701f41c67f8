// One node's agent: meets the other nodes of a run, starts this node's workers, restarts them when
// they fail or when the members change, and says how it all ended.
//
//   regroup::AgentOptions options;
//   options.spec = {.local_world_size = 8,
//                   .command = {"python", "-u", "train.py"},
//                   .max_restarts = 3};
//   options.rendezvous = {.backend = "c10d",
//                         .endpoint = "node-1:29400",
//                         .run_id = "job-17",
//                         .min_nodes = 6,
//                         .max_nodes = 8};
//   auto result = regroup::run_agent(std::move(options));  // Returns when this node is done.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "regroup/logs.h"
#include "regroup/records.h"
#include "regroup/rendezvous.h"
#include "regroup/result.h"
#include "regroup/time.h"
#include "regroup/worker_backend.h"
#include "regroup/workers.h"

namespace regroup {

enum class WorkerState { Unknown, Init, Healthy, Unhealthy, Stopped, Succeeded, Failed };

// What this node runs.
struct WorkerSpec {
  std::string role = "default";
  int local_world_size = 1;
  std::vector<std::string> command = {};                // Of every worker; see WorkerCommand::argv.
  std::map<std::string, std::string> environment = {};  // Ours; ranks and addresses are added.
  std::vector<std::vector<int>> cpus = {};              // By local rank; empty: no binding.
  bool virtual_local_rank = false;
  int max_restarts = 3;
  std::string entry_point = {};  // What records call it; empty: the command's name.
  // Where the workers find their store, whatever the nodes have agreed on; empty and 0: what they
  // have agreed on.
  std::string master_addr = {};
  std::uint16_t master_port = 0;
};

// A port where this node tells over HTTP how it is doing: docs/health.md. It answers every client
// that can reach it.
struct HealthOptions {
  std::string address = "::";  // "::" is every address, IPv4 and IPv6.
  std::uint16_t port = 0;      // 0: any free one; `on_listening` tells which.
  // The agent counts as alive if its loop turns within this time of being asked to.
  Duration limit = 60s;
  // False: if the port is not available, that is a warning, and the agent runs without it.
  bool required = true;
  std::function<void(const std::vector<std::string>& addresses)> on_listening = {};
};

// Countdown timers that workers ask for (docs/watchdog.md): those of PyTorch, and of
// regroup/timer.h.
struct WatchdogSpec {
  bool enabled = false;
  std::string path = {};  // Of the pipe. Empty: watchdog_timer_<random> in TMPDIR.
};

struct AgentOptions {
  WorkerSpec spec;
  RunRules rules = {};  // Its max_restarts is the one of `spec`.
  RendezvousParameters rendezvous;
  // Where the workers run. Empty: they are processes of this machine. Another backend has no use for
  // `logs`, nor for what `workers` says of control groups, stacks and output; hangs, timers and
  // stuck workers are not seen there.
  std::shared_ptr<WorkerBackend> backend = {};
  std::shared_ptr<LogsSpecs> logs = {};  // Empty: those of make_default_logs_specs({}).
  // How workers are stopped and contained, and where their output goes; its attempt and commands
  // are filled in.
  WorkersSpec workers;
  std::vector<int> signals_to_handle = {};   // These end this node's part.
  std::vector<int> signals_to_forward = {};  // These go to the workers.
  // These go to the workers of all nodes, where there is a coordinator. They do not end this node's
  // part.
  std::vector<int> signals_to_share = {};
  // How long we wait for the other nodes after our workers have succeeded.
  Duration exit_barrier_timeout = 300s;
  std::optional<HealthOptions> health = {};  // Empty: no such port.
  // A worker that is stuck in the kernel (state D) for this long has failed. Zero: not checked.
  Duration stuck_limit{};
  WatchdogSpec watchdog = {};
  // Gets what people may want to see, on the agent's thread; `tell` prints a line between the
  // workers'.
  std::function<void(const struct AgentEvent&)> on_event = {};
};

struct RunResult {
  enum class Ending {
    Succeeded,
    Failed,         // A worker failed and the budget is spent, here or on another node.
    Signalled,      // `signal` ended it.
    NotNeeded,      // A spare whose run ended without it. Not a failure.
    CouldNotJoin,   // `error` says why.
    CouldNotStart,  // `error` says why.
    LeftBehind,     // Processes that cannot be killed: `workers.survivors`.
  };
  Ending ending = Ending::Succeeded;
  WorkerState state = WorkerState::Unknown;
  WorkersResult workers;                   // Of the last start.
  std::map<int, ProcessFailure> failures;  // Of the last start, by global rank.
  std::optional<ProcessFailure> cause;     // The worker that failed first, on this node.
  std::string cause_elsewhere;             // As another node told it; empty: none did.
  // Of CouldNotJoin and CouldNotStart; of Failed, if no worker's failure is the reason.
  Error error{ErrorKind::Io, ""};
  int signal = 0;
  int restarts = 0;
  bool failed() const { return ending != Ending::Succeeded && ending != Ending::NotNeeded; }
};

// Something happened: `what`, on this node, in the round it is in, or was in last.
//
//   options.on_event = [](const regroup::AgentEvent& event) {
//     if (auto* joined = std::get_if<regroup::AgentEvent::Joined>(&event.what)) ...
//   };
//
// examples/embed.cc acts on several kinds. A later version may have more of them. An event can be
// kept, but `tell` and `show` are for the time of the call.
struct AgentEvent {
  // The node waits for other nodes, or for a stop to finish.
  struct Waiting {
    std::string text;
  };
  // The same, always up to date, for a live line.
  struct Progress {
    std::string text;
    Duration took{};                    // So far.
    std::optional<Duration> left = {};  // Empty: there is no limit.
  };
  // This node is a member of a new round.
  struct Joined {
    Duration took{};
    std::string master_addr = {};  // Where the workers find their store.
    std::uint16_t master_port = 0;
    std::vector<int> ranks = {};       // Of this node's workers, by local rank: among all,
    std::vector<int> role_ranks = {};  // and in their role.
    std::string role = {};
    int role_world_size = 1;
  };
  // The workers run.
  struct Started {
    Duration took{};
  };
  // One of our workers has failed, before any other of this start.
  struct Failed {
    enum class Then {
      Restart,    // The workers of all nodes are started again.
      Rejoin,     // They are started again for another reason. It costs no restart.
      End,        // This node's part is over.
      Undecided,  // The coordinator has not said yet.
    };
    ProcessFailure failure;
    Then then = Then::Undecided;
    int restart = 0;  // Of Then::Restart: its number; past `max_restarts` if that is for some time.
    int max_restarts = 0;
  };
  // A worker of another node has failed, before any other of this start.
  struct FailedElsewhere {
    std::string text;
    int restart = 0;  // Which one follows.
    int max_restarts = 0;
  };
  // The workers are stopped to join the next round.
  struct MembersChanged {
    std::string text;  // Why.
  };
  // Another node says that the run has failed.
  struct RunFailed {
    std::string text;
  };
  struct Signalled {
    std::string text;  // The signal and its sender.
  };
  // Details for people who want to know more.
  struct Noted {
    std::string text;
  };
  // Every node's end is known, or is not waited for any longer.
  struct CheckedIn {
    std::string text;  // Empty: all is well.
    Duration took{};   // How long the other nodes were waited for.
  };
  // Our part is over.
  struct Ended {
    RunResult result;
  };
  // The records at the end are for monitoring: torchrun's events (of the agent and of the
  // rendezvous), its metrics and ours. to_json()
  // makes a line of each.
  using What = std::variant<Waiting, Progress, Joined, Started, Failed, FailedElsewhere,
                            MembersChanged, RunFailed, Signalled, Noted, CheckedIn, Ended,
                            EventRecord, MetricRecord, RendezvousRecord>;

  What what;
  std::int64_t round = 0;
  std::int64_t group_rank = 0;
  std::int64_t group_world_size = 1;
  int local_world_size = 1;
  std::int64_t world_size = 1;  // Workers of all nodes.
  // Prints a line on standard error, never in the middle of a worker's line.
  std::function<void(const std::string&)> tell = {};
  // Shows a line at the bottom of a terminal that keeps counting from what Progress `took` and has
  // `left`, until it is shown again, or called with nothing.
  std::function<void(const std::string&)> show = {};
};

// How an agent is doing, at one moment.
struct AgentStatus {
  struct Worker {
    int local_rank = 0;
    int rank = 0;
    int pid = 0;        // Also of one that has ended; 0: it is no process.
    std::string state;  // "running", "succeeded", "failed", "stopped", "survived".
  };
  WorkerState state = WorkerState::Init;  // Of the worker group, as torchrun calls it.
  std::string doing = "nothing";          // "joining", "running", "stopping", ...
  std::string waiting_for = {};           // In words; empty: for nothing but its workers.
  // Of the round that this node is in; empty: it is in none.
  std::optional<std::int64_t> round = {};
  std::int64_t group_rank = 0;
  std::int64_t group_world_size = 1;
  int restarts = 0;
  std::vector<Worker> workers = {};  // Of the last start, by local rank.
};

// An agent as an object: one thread runs it, others ask it and stop it.
//
//   auto agent = regroup::Agent::create(std::move(options));
//   std::thread watch([&] { if (is_enough((*agent)->status())) (*agent)->stop(); });
//   RunResult result = (*agent)->run();
class Agent {
 public:
  // Opens all that is needed before the first round: signals are handled from now on. It starts no
  // worker and meets no node.
  static Result<std::unique_ptr<Agent>> create(AgentOptions options);
  virtual ~Agent() = default;

  // Once. Returns when this node is done. The workers die with the thread that calls it; that is
  // the one that called create(), or one that was started later.
  virtual RunResult run() = 0;

  // From any thread, before, during and after run().
  virtual AgentStatus status() const = 0;
  // From any thread: as if this signal had come. The first asks the workers to end, within their
  // grace; the next one kills them, however soon it comes.
  virtual void stop(int signal = 15) = 0;
};

// Creates an agent and runs it on the calling thread. Fails only if it could not begin at all. The
// process should have no children of its own.
Result<RunResult> run_agent(AgentOptions options);

}  // namespace regroup
