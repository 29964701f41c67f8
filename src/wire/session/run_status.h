// How the runs at a port stand, as JSON: what a Report holds and `regroup status` shows.
// docs/protocol.md has the fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/coordinator/run_status.h"
#include "regroup/result.h"

namespace regroup::wire {

struct SessionCounters {
  std::uint64_t sessions = 0;  // Now.
  std::uint64_t sessions_ever = 0;
  std::uint64_t messages_in = 0;
  std::uint64_t messages_out = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t refused = 0;  // Sessions closed for what they said, did not say, or did not read.
  friend bool operator==(const SessionCounters&, const SessionCounters&) = default;
};

struct PortStatus {
  SessionCounters counters = {};
  std::vector<core::coordinator::RunStatus> runs = {};
};

// In one line, all ASCII.
std::string encode_status(const PortStatus& status);

// What a newer coordinator says besides is skipped, and what an older one does not say is as a new
// run has it. Of a run's rules only what is shown is told. An error: this is no status.
Result<PortStatus> decode_status(std::string_view json);

}  // namespace regroup::wire
