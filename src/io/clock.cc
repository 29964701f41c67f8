#include "io/clock.h"

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

}  // namespace regroup::io
