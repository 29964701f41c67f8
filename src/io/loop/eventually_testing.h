// For tests: waits for what is not reported to us. No test waits for a fixed time.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <functional>

#include "io/loop/clock.h"

namespace regroup::io {

inline constexpr Duration kGenerous = 60s;

// Looks again and again; false if it is still not so after a generous time.
inline bool eventually(const std::function<bool()>& condition) {
  const Instant until = deadline_after(kGenerous);
  while (!condition()) {
    if (now() > until) return false;
    ::sched_yield();
    ::usleep(1000);
  }
  return true;
}

}  // namespace regroup::io
