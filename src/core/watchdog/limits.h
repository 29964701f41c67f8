// What may grow in this room.
#pragma once

#include <cstddef>

namespace regroup::core::watchdog {

// Timers at one time; one more is refused. A worker that never releases what it acquires, under a
// new name each time, must not eat the memory of the launcher.
inline constexpr std::size_t kTimers = 1'000'000;

}  // namespace regroup::core::watchdog
