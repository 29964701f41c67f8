// What a run's nodes agree on beforehand. Every node must be started with the same values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "regroup/result.h"
#include "regroup/time.h"

namespace regroup::core::rendezvous {

// Practically for ever, and sums of a few of them still fit a Duration.
inline constexpr Duration kLongest = 10 * 365 * 24h;

// The defaults are torchrun's.
struct Settings {
  std::string run_id;
  std::int64_t min_nodes = 1;
  std::int64_t max_nodes = 1;
  // Above zero: a round consists of whole groups of this many nodes. It needs a coordinator, which
  // enforces it; in this room it only affects the order of ranks.
  std::int64_t segment = 0;

  Duration join_timeout = 600s;      // For a round to come together.
  Duration last_call_timeout = 30s;  // For more nodes to come once the minimum is there.
  Duration close_timeout = 30s;      // For closing the run.
  Duration heartbeat_timeout = 5s;   // For one heartbeat to reach the backend.

  Duration keep_alive_interval = 5s;     // Between heartbeats.
  std::int64_t keep_alive_attempts = 3;  // A node that misses this many in a row counts as dead.

  Duration silence_limit() const {
    const bool fits = keep_alive_interval <= kLongest / keep_alive_attempts;
    return fits ? keep_alive_interval * keep_alive_attempts : kLongest;
  }
};

// The first thing that is wrong, with its value and what would be right.
Result<void> validate(const Settings& settings);

}  // namespace regroup::core::rendezvous
