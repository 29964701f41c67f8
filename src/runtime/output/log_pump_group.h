// The streams of one start of a group of workers, and the descriptors that the workers get.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "regroup/logs.h"
#include "regroup/result.h"
#include "runtime/output/log_pump_options.h"
#include "runtime/output/log_pump_stream.h"

namespace regroup::runtime {

struct PumpGroup {
  struct Worker {
    int local_rank = 0;
    PumpStream* errors = nullptr;  // Keeps the tail; null: the worker writes to `errors_file`.
    std::string errors_file;
    bool one_stream = false;  // Its stdout is in there, too.
  };
  std::vector<Worker> workers;
  // Only for the pump's thread.
  std::vector<std::unique_ptr<PumpStream>> streams;
  std::vector<std::unique_ptr<FilteredCopy>> filtered;
};

// The descriptors that workers get, and our copies of them until the workers are started.
struct WorkerEnds {
  std::vector<WorkerStreams> streams;
  std::vector<io::Descriptor> held;
};

// The two consoles, which may be one. Null: there is none.
struct Screens {
  Screen* out = nullptr;
  Screen* err = nullptr;
};

// Opens everything, or nothing. `turn` is that of the loop the streams will live on.
struct OpenedGroup {
  std::unique_ptr<PumpGroup> group;
  WorkerEnds ends;
};
Result<OpenedGroup> open_group(const LogPumpOptions& options, Screens screens, PumpTurn& turn,
                               const LogRoutes& routes, const std::vector<WorkerName>& names);

}  // namespace regroup::runtime
