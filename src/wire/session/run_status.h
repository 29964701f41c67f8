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

// Fields that a newer coordinator adds are skipped, and those that an older one leaves out are as
// in a new run. Of a run's rules only what is shown is sent. An error: this is not a status.
Result<core::run::PortStatus> decode_status(std::string_view json);

}  // namespace regroup::wire
