// What became of a worker, in the words that people get to read.
#pragma once

#include <string>

#include "core/supervision/supervision.h"
#include "regroup/workers.h"
#include "runtime/evidence/evidence.h"

namespace regroup::runtime {

struct EndedWorker {
  WorkerName name;
  std::string host;
  int pid = 0;
  core::supervision::WorkerOutcome outcome;
  std::int64_t time_micros = 0;
  std::string error_file;  // Where it was to be written; may be empty.
  Evidence evidence;
  std::string tail;
  std::string ended_for = {};  // Why we ended it, if we did.
};

// Reads the error file. A broken one counts as absent, and is reported as evidence.
ProcessFailure make_failure(const EndedWorker& worker);

// As Python gives it: killed by signal n is -n.
int python_exit_code(const core::supervision::Exit& exit);

}  // namespace regroup::runtime
