// A failure as torchrun reports it, for programs that read its report: same lines, same order, same
// widths.
//
// Two things are ours: the host is this machine's own name (torchrun asks the name service at that
// moment, and may wait for it), and the root cause is the worker that really failed first (torchrun
// compares whole seconds).
#pragma once

#include <string>

#include "regroup/workers.h"

namespace regroup::cli {

// `name` is what was started: the script, the module, the program. Whole lines; empty if no worker
// failed. Times are local.
std::string torchrun_report(const std::string& name, const WorkersResult& result);

}  // namespace regroup::cli
