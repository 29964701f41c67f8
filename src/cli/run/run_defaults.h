// What the flags of `regroup run` come to: torchrun's defaults, and every value checked.
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
  std::string nproc;         // As typed: who counts devices judges it.
  std::string numa_binding;  // Empty: none.
  bool virtual_local_rank = false;

  // To be said before anything starts: what was asked for and is not done.
  std::vector<std::string> warnings;
};

// Rolls dice for the run id where it is not the user's. What cannot be is an InvalidArgument that
// names the flag, or the PET_ variable.
Result<RunPlan> resolve(const RunFlags& flags);

}  // namespace regroup::cli
