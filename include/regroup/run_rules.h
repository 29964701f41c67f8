// The rules of a run with a coordinator; those of its first node count.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "regroup/time.h"

namespace regroup {

struct RunRules {
  // run_agent() fills these three in from its parameters.
  std::int64_t min_nodes = 1;
  std::int64_t max_nodes = 1;
  Duration last_call = 30s;  // For more nodes to come once the minimum is there.

  // Of nodes without a session, which send heartbeats through the store: how often, and after how
  // many that did not come such a node is lost. Filled in likewise.
  Duration keep_alive_interval = 5s;
  std::int64_t keep_alive_max_attempt = 3;

  // When the workers are not started again:
  std::int64_t max_restarts = 0;  // After this many failures in the whole run,
  Duration restart_window{};      // or, if it is above zero, within this time.
  bool per_node = false;          // Each node counts its own, as torchrun's do.
  std::int64_t crash_loop = 0;    // After this many failures in a row (0: any number),
  Duration crash_loop_time{};     // each within this time after the start.
  std::vector<std::int64_t> no_restart_codes = {};  // After one of these exit codes.
  // A node that was the first to fail this often is not let in; 0: it always is.
  std::int64_t node_strikes = 0;
  std::optional<std::int64_t> max_membership_changes = {};  // Empty: any number.

  // Above zero: a round consists of whole groups of this many nodes with the same topology_key. The
  // numbers of nodes must be multiples of it.
  std::int64_t segment = 0;

  Duration heartbeat_limit = 5s;  // A node that says nothing for this long is lost.
  // How long a node whose connection was closed may take to come back.
  Duration reconnect_grace = 100ms;

  // For a round to come together again; empty: join_timeout, as for the first. Each node has its
  // own: the others are not told.
  std::optional<Duration> rejoin_timeout = {};

  friend bool operator==(const RunRules&, const RunRules&) = default;
};

}  // namespace regroup
