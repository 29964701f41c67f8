// How the runs at a port stand, as JSON: what `regroup status` is told. docs/protocol.md has the
// fields.
#pragma once

#include <string>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "runtime/coordinator_host.h"

namespace regroup::runtime {

std::string run_status_json(const std::vector<core::coordinator::RunStatus>& runs,
                            const CoordinatorCounters& counters);

}  // namespace regroup::runtime
