// Runs one group of workers to its end, on the calling thread, and answers signals meanwhile. What
// it has to say until then (a signal came, a stop takes long) it says on standard error, between
// the lines of the workers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "regroup/workers.h"
#include "runtime/workers/worker_signals.h"

namespace regroup::runtime {

struct WorkerServiceOptions {
  WorkersSpec spec;  // Orphans are claimed, because the whole process is ours.
  std::shared_ptr<LogsSpecs> logs;
  SignalChoice signals;
  bool verbose = false;  // Also says how soon the workers ran.
  // What to print at the end; empty: nothing.
  std::function<std::string(const WorkersResult&)> report = {};
};

struct WorkerServiceResult {
  WorkersResult workers;
  int signal = 0;  // That ended the run; 0: none did.
};

// Fails only if the workers cannot be started; nothing is left then.
Result<WorkerServiceResult> run_workers(WorkerServiceOptions options);

}  // namespace regroup::runtime
