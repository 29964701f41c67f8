// What is started on this node in a round: each worker's command, ranks and environment.
#pragma once

#include <string>
#include <vector>

#include "regroup/agent.h"
#include "runtime/rounds/rounds.h"

namespace regroup::runtime {

struct WatchdogFiles {
  std::string timers = {};                   // Empty: there is no watchdog.
  std::vector<std::string> heartbeats = {};  // By local rank; empty: they are not watched.
};

// InvalidArgument: a worker cannot have the GPU that it should have.
Result<WorkersSpec> workers_of(const AgentOptions& options, const JoinedRound& round,
                               int restart_count, const WatchdogFiles& files);

}  // namespace regroup::runtime
