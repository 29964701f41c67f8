// Threads that no signal interrupts: signals of the process go to the thread that asked for them,
// and a write to a broken pipe is an error instead of a fatal signal.
#pragma once

#include <functional>
#include <thread>

#include "regroup/result.h"

namespace regroup::runtime {

// `name` is what people see (io/loop/thread_name.h).
Result<std::thread> start_quiet_thread(const char* name, std::function<void()> body);

}  // namespace regroup::runtime
