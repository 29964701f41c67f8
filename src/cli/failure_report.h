// A failure, as people read it: the cause first, then what shows it, then the rest in a few lines.
#pragma once

#include <string>

#include "regroup/workers.h"

namespace regroup::cli {

// Whole lines. Empty if nobody failed.
std::string failure_report(const WorkersResult& result);

// As a shell tells it: the cause's own exit code, 128 + n if it was killed by signal n.
int exit_code_of(const ProcessFailure& cause);

// A launcher that was started as somebody's worker tells him: the cause's error file goes to our
// own TORCHELASTIC_ERROR_FILE, with the exit code, as torchrun does. Nothing if the cause wrote
// none.
void pass_on_error_file(const ProcessFailure& cause);

// The same of a failure that is no worker's.
void leave_error_file(const std::string& message);

}  // namespace regroup::cli
