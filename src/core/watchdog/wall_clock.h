// Workers say by the wall clock when a timer expires. That clock may be set at any moment, by an
// hour or by a second; our deadlines are on the monotonic clock, which is not. So the time in a
// request is translated as soon as the request is read, and never looked at again.
//
// Pure: its host reads both clocks just before it reads requests, and hands them in.
#pragma once

#include <optional>

#include "base/instant.h"

namespace regroup::core::watchdog {

class WallClock {
 public:
  // Both clocks at one moment, just before the requests are read that are translated next.
  void look(Instant now, Duration since_1970);

  // The instant of `seconds` since 1970. A time that is too far away for our clock, or not a
  // number, becomes the end of time.
  Instant translate(double seconds, Instant now) const;

 private:
  Duration offset_{};  // What to add to a wall time.
  std::optional<Instant> looked_;
  // If the clock was set a moment ago, the offset until then: a request that is read now may have
  // been written before or after.
  std::optional<Duration> before_;
  Instant doubt_until_;
};

}  // namespace regroup::core::watchdog
