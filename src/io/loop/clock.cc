#include "io/loop/clock.h"

namespace regroup::io {

Instant now() { return {std::chrono::steady_clock::now().time_since_epoch()}; }

Instant deadline_after(Duration limit) {
  const Instant start = now();
  if (limit > Duration::max() - start.since_start) return {Duration::max()};
  return start + limit;
}

std::int64_t utc_micros() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since_1970).count();
}

BothClocks read_both_clocks() {
  // If we lose the CPU between the two, they are not of one moment: then we try again, and the best
  // try counts.
  constexpr int kTries = 4;
  constexpr Duration kClose = 20us;
  BothClocks best{};
  Duration closest = Duration::max();
  for (int i = 0; i < kTries && closest > kClose; ++i) {
    const Instant before = now();
    const Duration wall = std::chrono::system_clock::now().time_since_epoch();
    const Duration apart = now() - before;
    if (apart >= closest) continue;
    closest = apart;
    best = {before + apart / 2, wall};
  }
  return best;
}

}  // namespace regroup::io
