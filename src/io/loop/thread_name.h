// Names for threads, as `ps -L`, `top -H`, a debugger and /proc/PID/task/TID/comm show them.
#pragma once

#include <cstddef>

namespace regroup::io {

inline constexpr std::size_t kLongestThreadName = 15;  // The kernel keeps no more.

// For threads that we start, as their first step. Never for the main thread: its name is the
// process's.
void name_this_thread(const char* name);

}  // namespace regroup::io
