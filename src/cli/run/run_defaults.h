// The plan that the flags of `regroup run` amount to: torchrun's defaults, and every value checked.
#pragma once

#include <string>
#include <vector>

#include "cli/run/run_flags.h"
#include "regroup/rendezvous.h"
#include "runtime/workers/interpreter.h"

namespace regroup::cli {

using RunMode = runtime::ScriptMode;

struct RunPlan {
  RendezvousParameters rendezvous;
  RunRules rules;
  RunMode mode = RunMode::Script;
  std::string role;
  std::string nproc;         // As typed; process_count checks it when it counts devices.
  std::string numa_binding;  // Empty: none.
  bool virtual_local_rank = false;

  // To be printed before anything starts: requests that are not carried out.
  std::vector<std::string> warnings;
};

// Makes up a random run id if the user gave none. An impossible value is an InvalidArgument that
// names the flag, or the PET_ variable.
Result<RunPlan> resolve(const RunFlags& flags);

}  // namespace regroup::cli
