// A moment on one machine's monotonic clock. It has no meaning on another machine, and no date.
#pragma once

#include <compare>

#include "regroup/time.h"

namespace regroup {

struct Instant {
  Duration since_start{};  // Since an arbitrary start, the same for the whole process.

  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Instant operator+(Instant at, Duration d) { return {at.since_start + d}; }
  friend constexpr Duration operator-(Instant a, Instant b) {
    return a.since_start - b.since_start;
  }
};

}  // namespace regroup
