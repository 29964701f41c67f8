// Threads that no signal interrupts: those of the process are for the thread that asked for them,
// and a write to a broken pipe is an error, not a death.
#pragma once

#include <functional>
#include <thread>

#include "regroup/result.h"

namespace regroup::runtime {

// `name` is what people see (io/loop/thread_name.h).
Result<std::thread> start_quiet_thread(const char* name, std::function<void()> body);

}  // namespace regroup::runtime
