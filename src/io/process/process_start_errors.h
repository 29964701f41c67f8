// Why a process could not be started, for people. For this room alone.
#pragma once

#include "io/process/process.h"
#include "io/process/process_child.h"
#include "regroup/result.h"

namespace regroup::io {

// Looks at the files in question once more, so that it can say what to check.
Error explain(const Plan& plan, const StartFailure& failure);

}  // namespace regroup::io
