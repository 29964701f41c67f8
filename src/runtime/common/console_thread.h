// Threads that no signal interrupts: those of the process are for the thread that asked for them,
// and a write to a broken pipe is an error, not a death.
#pragma once

#include <functional>
#include <thread>

#include "regroup/result.h"

namespace regroup::runtime {

Result<std::thread> start_quiet_thread(std::function<void()> body);

}  // namespace regroup::runtime
