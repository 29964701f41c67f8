// Flags about workers and their output, the same wherever workers are started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "regroup/logs.h"
#include "regroup/workers.h"
#include "runtime/workers/worker_signals.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own.
class App;
}

namespace regroup::cli {

// The values as they were typed.
struct WorkerFlags {
  std::string log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string prefix;
  std::string local_ranks;
  std::string ranks;
  std::optional<std::string> out_filters;
  std::optional<std::string> err_filters;
  std::uint64_t log_max_bytes = 0;
  int log_keep = 3;
  std::string handle{runtime::kSignalsToHandle};
  std::string forward{runtime::kSignalsToForward};
  std::optional<double> shutdown_seconds;
  std::string children = "wait";
  std::string cgroup = "auto";
  std::uint64_t memory_limit = 0;
  double hang_seconds = 0;
  std::optional<double> hang_grace_seconds;
  std::string evidence = "on-hang";
  std::string dump_signal;
};

void add_worker_flags(CLI::App& command, WorkerFlags& flags);

struct WorkerChoices {
  DefaultLogsOptions logs;
  runtime::SignalChoice signals;
  std::vector<std::string> warnings = {};  // Printed in any case.
};

// Writes the values into the spec, and returns what is not part of it. A wrong value is an
// InvalidArgument that names its flag; a signal that does not exist only causes a warning, as with
// torchrun.
Result<WorkerChoices> apply(const WorkerFlags& flags, WorkersSpec& spec);

}  // namespace regroup::cli
