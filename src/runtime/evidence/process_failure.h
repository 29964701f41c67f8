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
};

// What its end alone tells.
ProcessFailure failure_of(const EndedWorker& worker);

struct FailureFacts {
  std::string error_file;  // Where it was to be written; may be empty.
  Evidence evidence;
  std::string tail;
  bool tail_of_both = false;
};

// Adds what else is known. Reads the error file; a broken one counts as absent, and is reported as
// evidence.
void explain(ProcessFailure& failure, const FailureFacts& facts);

// We ended it for this: whatever it wrote before is not why.
void ended_for(ProcessFailure& failure, const std::string& why);

// As Python gives it: killed by signal n is -n.
int python_exit_code(const core::supervision::Exit& exit);

}  // namespace regroup::runtime
