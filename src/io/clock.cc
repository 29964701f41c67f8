#include "io/clock.h"

namespace regroup::io {

Instant now() { return {std::chrono::steady_clock::now().time_since_epoch()}; }

Instant deadline_after(Duration limit) {
  const Instant start = now();
  if (limit > Duration::max() - start.since_start) return {Duration::max()};
  return start + limit;
}

}  // namespace regroup::io
