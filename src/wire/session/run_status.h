// How the runs at a port stand, as JSON: what a Report holds and `regroup status` shows.
// docs/protocol.md has the fields.
#pragma once

#include <string>
#include <string_view>

#include "core/run/run_status.h"
#include "regroup/result.h"

namespace regroup::wire {

// In one line, all ASCII.
std::string encode_status(const core::run::PortStatus& status);

// What a newer coordinator says besides is skipped, and what an older one does not say is as a new
// run has it. Of a run's rules only what is shown is told. An error: this is no status.
Result<core::run::PortStatus> decode_status(std::string_view json);

}  // namespace regroup::wire
