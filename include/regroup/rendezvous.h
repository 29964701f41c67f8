// How the nodes of a run meet: which are in the round, which rank each has, where the workers'
// store is.
//
//   auto handler = regroup::make_rendezvous({.backend = "c10d", .endpoint = "node-1:29400",
//                                            .run_id = "job-17", .min_nodes = 6, .max_nodes = 8});
//   if (!handler) return report(handler.error());
//   auto round = (*handler)->next_rendezvous();       // Waits for the others.
//   start_workers(round->rank, round->world_size, round->bootstrap);
//   ...
//   if (auto now = (*handler)->status(); now && now->must_rejoin()) { stop; next_rendezvous(); }
//   (*handler)->shutdown();                           // The run is over, for all nodes.
//
// A node of regroup and a node of PyTorch's torchrun (2.4 and newer) can be in the same run.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "regroup/records.h"
#include "regroup/result.h"
#include "regroup/run_rules.h"
#include "regroup/store.h"
#include "regroup/time.h"

namespace regroup {

// What this node waits for, in a few words, for a line that is always up to date.
struct RendezvousWait {
  std::string text;  // "waiting for nodes: 1 of 2 here"
  Duration so_far{};
  std::optional<Duration> left = {};  // Until it is given up, or its time is over.
};

struct RendezvousParameters {
  std::string backend = "c10d";  // A registered name: "c10d", "static", or one of your own.
  std::string endpoint = {};     // HOST[:PORT]; a path for the c10d backend with store_type=file.
  std::string run_id = {};
  std::int64_t min_nodes = 1;
  std::int64_t max_nodes = 1;
  // This node's address as others reach it; empty: found automatically.
  std::string local_addr = {};
  // The rank itself with the static backend; elsewhere a wish.
  std::optional<std::int64_t> node_rank = {};
  // The same on machines that are near each other: the rack, the switch. Where there is a
  // coordinator their ranks are next to each other, and `segment` keeps groups whole.
  std::string topology_key = {};
  std::map<std::string, std::string> config =
      {};  // Of --rdzv-conf; docs/rendezvous.md has the keys.
  // Names; while waiting, messages say which are missing.
  std::vector<std::string> expected_nodes = {};

  // Holds a secret; agents and their coordinator prove to each other that they know it (only
  // run_agent has a session with one). Empty: none.
  std::string secret_file = {};

  // Gets one line about what it waits for: when that changes, and every ten seconds. Empty: logged.
  std::function<void(const std::string&)> on_status = {};

  // Called when the wait begins, and whenever its text or its limit changes. On the thread that
  // waits.
  std::function<void(const RendezvousWait&)> on_wait = {};

  // Gets every step of the rendezvous, as torchrun's events (docs/events.md). On the thread that
  // takes the step; heartbeats have one of their own. Must not call the handler.
  std::function<void(const RendezvousRecord&)> on_record = {};

  // Once it is true, make_rendezvous() and next_rendezvous() end with Cancelled: within half a
  // second or so, or as soon as a store that does not answer is given up (heartbeat_timeout).
  std::shared_ptr<const std::atomic<bool>> interrupted = {};

  // A value of `config`. One that should be an integer or a boolean (1/true/t/yes/y,
  // 0/false/f/no/n) and is not is an InvalidArgument that names the key.
  std::optional<std::string> text(std::string_view key) const;
  Result<std::optional<std::int64_t>> integer(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
};

// "key=value,key=value", as given to --rdzv-conf. The last of two equal keys counts.
Result<std::map<std::string, std::string>> parse_rendezvous_config(std::string_view text);

// What a rendezvous was made with: the parameters, and the defaults for those that were not given.
struct RendezvousSettings {
  std::string run_id;
  std::int64_t min_nodes = 1;
  std::int64_t max_nodes = 1;
  Duration join_timeout{};
  Duration last_call_timeout{};
  Duration close_timeout{};
  Duration heartbeat_timeout{};
  Duration keep_alive_interval{};
  std::int64_t keep_alive_max_attempt = 0;
  friend bool operator==(const RendezvousSettings&, const RendezvousSettings&) = default;
};

// Where the workers' own store is served.
struct BootstrapStore {
  std::string address;
  std::uint16_t port = 0;
  friend bool operator==(const BootstrapStore&, const BootstrapStore&) = default;
};

// Where this node's workers begin. Worker i of the node has the base plus i.
struct WorkerRanks {
  std::int64_t base_global_rank = 0;
  std::int64_t global_world_size = 0;
  std::int64_t base_role_rank = 0;
  std::int64_t role_world_size = 0;
};

struct RendezvousInfo {
  // Shared by the members of the round. Its keys are the round's own, except with the static
  // backend, which knows no rounds.
  std::shared_ptr<Store> store;
  std::int64_t round = 0;
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  BootstrapStore bootstrap;
  std::vector<std::string> nodes;  // Names, in the order of ranks; empty where they are not known.
  // From a coordinator. Empty: the members exchange their ranks in the store, and each counts its
  // own restarts.
  std::optional<WorkerRanks> ranks = {};
  std::optional<std::int64_t> restart_count = {};
};

// What has become of the round that this node joined last.
struct RendezvousStatus {
  bool member = true;        // False: the others dropped this node, or it has left.
  bool whole = true;         // False: a member is gone.
  bool closed = false;       // The run is over.
  std::int64_t waiting = 0;  // Nodes that want to join.
  std::int64_t spares = 0;   // Nodes that wait beyond the maximum.
  bool must_rejoin() const { return !member || !whole || waiting > 0; }
};

// The first of a node's workers that failed.
struct WorkerFailure {
  std::int64_t rank = 0;       // Among all.
  std::int64_t exit_code = 0;  // Below zero: minus the signal.
  std::string text;            // For people, on every node.
};

// May be used by several threads; a call waits for the one before it. Errors: Closed, Timeout,
// Connection, Corrupt (the shared state cannot be read; it is left as it is), NotNeeded (this node
// was a spare and the run has ended: not a failure), Cancelled.
class RendezvousHandler {
 public:
  RendezvousHandler() = default;
  RendezvousHandler(const RendezvousHandler&) = delete;
  RendezvousHandler& operator=(const RendezvousHandler&) = delete;
  virtual ~RendezvousHandler() = default;  // Ends the heartbeats; the others notice after a while.

  virtual std::string backend() const = 0;
  virtual std::string run_id() const = 0;
  // Empty: a backend that has no such settings (static, for example).
  virtual std::optional<RendezvousSettings> settings() const { return std::nullopt; }

  // Leaves the round this node is in, and waits until it is in the next. From then on heartbeats
  // are sent in the background.
  virtual Result<RendezvousInfo> next_rendezvous() = 0;

  // These ask the backend at most once a second and answer from memory in between.
  virtual Result<bool> is_closed() = 0;
  virtual Result<std::int64_t> num_nodes_waiting() = 0;
  virtual Result<RendezvousStatus> status() = 0;

  // Ends the run for all nodes, for good. Calling it twice is fine.
  virtual Result<void> set_closed() = 0;

  // Stops the heartbeats and closes the run.
  virtual Result<void> shutdown() = 0;

  // Takes this node off every list, so that the others do not have to wait for its silence. The run
  // goes on.
  virtual Result<void> leave() = 0;

  // True if the agents' store also serves the workers (their TORCHELASTIC_USE_AGENT_STORE).
  virtual bool use_agent_store() const = 0;
};

using RendezvousCreator =
    Result<std::unique_ptr<RendezvousHandler>> (*)(const RendezvousParameters& parameters);

// Makes a backend known. Registering the same creator twice is fine; another one under a taken name
// is refused.
Result<void> register_rendezvous(std::string name, RendezvousCreator creator);

// Bad parameters are InvalidArgument; an unknown key in the configuration only causes a warning,
// because torchrun accepts any. The c10d and static backends open their store here, and wait for it
// as long as for the other nodes.
Result<std::unique_ptr<RendezvousHandler>> make_rendezvous(const RendezvousParameters& parameters);

}  // namespace regroup
