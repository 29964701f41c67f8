#include "core/watchdog/wall_clock.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace regroup::core::watchdog {
namespace {

// A clock that is steered, by half a second in a thousand at most, is not one that is set. Nor is a
// smaller step worth a doubt.
constexpr Duration kSmallStep = 1s;
constexpr int kSteered = 2000;
// Requests lie in the pipe for so long at most, unless we are suspended.
constexpr Duration kDoubt = 1s;
constexpr double kEndOfTime = 9e9;  // Seconds; beyond that, nanoseconds since 1970 have no room.

Instant at(double seconds, Duration offset) {
  const auto whole = static_cast<std::int64_t>(seconds);
  const auto rest = static_cast<std::int64_t>((seconds - static_cast<double>(whole)) * 1e9);
  return Instant{std::chrono::seconds(whole) + Duration(rest) + offset};
}

}  // namespace

void WallClock::look(Instant now, Duration since_1970) {
  const Duration offset = now.since_start - since_1970;
  if (looked_ && std::chrono::abs(offset - offset_) > kSmallStep + (now - *looked_) / kSteered) {
    before_ = offset_;
    doubt_until_ = now + kDoubt;
  } else if (now > doubt_until_) {
    before_.reset();
  }
  offset_ = offset;
  looked_ = now;
}

Instant WallClock::translate(double seconds, Instant now) const {
  if (std::isnan(seconds) || seconds >= kEndOfTime) return Instant{Duration::max()};
  const Instant by_this = at(seconds, offset_);
  if (!before_) return by_this;
  // Nobody acquires a timer that has expired already, and few one that is longer than the step. So
  // the clock by which it has the shorter time left, but some, is the one that it was written by.
  const Instant by_that = at(seconds, *before_);
  if (by_this <= now) return by_that <= now ? by_this : by_that;
  return by_that <= now ? by_this : std::min(by_this, by_that);
}

}  // namespace regroup::core::watchdog
