// A failure, as people read it: the cause first, then what shows it, then the rest in a few lines.
#pragma once

#include <string>

#include "cli/show/advice.h"
#include "cli/show/paint.h"
#include "regroup/workers.h"

namespace regroup::cli {

// Whole lines. Empty if no worker failed.
std::string failure_report(const WorkersResult& result, const Started& started = {},
                           Paint paint = {});

// The part about processes that cannot be killed; empty: there are none.
std::string survivors_report(const WorkersResult& result);

// The directory with files about a failure; empty: there are none.
std::string logs_of(const WorkersResult& result);

// One line of a text from strangers, made safe for a terminal: without escape sequences, and cut.
std::string first_line(const std::string& text);

// As a shell gives it: the cause's own exit code, 128 + n if it was killed by signal n.
int exit_code_of(const ProcessFailure& cause);

// If this launcher was itself started as a worker, tells the one above: the cause's error file is
// copied to our own TORCHELASTIC_ERROR_FILE, with the exit code, as torchrun does. Does nothing if
// the cause wrote none.
Result<void> pass_on_error_file(const ProcessFailure& cause);

// The same for a failure that is not a worker's.
Result<void> leave_error_file(const std::string& message);

}  // namespace regroup::cli
