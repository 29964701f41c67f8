// Durations as people type them and read them: seconds, with a fraction.
#pragma once

#include <chrono>

#include "regroup/time.h"

namespace regroup {

constexpr Duration from_seconds(double count) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(count));
}

constexpr double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace regroup
