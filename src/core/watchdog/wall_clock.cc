#include "core/watchdog/wall_clock.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace regroup::core::watchdog {
namespace {

// A clock that is slewed, by half a second in a thousand at most, is not one that is set. A step
// smaller than this does not matter either.
constexpr Duration kSmallStep = 1s;
constexpr int kSteered = 2000;
// Requests stay in the pipe for this long at most, unless we are suspended.
constexpr Duration kDoubt = 1s;
// After the clock was set, a hang may be noticed later by up to this much.
constexpr Duration kLargeStep = 60s;
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
  // No worker acquires a timer that has expired already.
  const Instant by_that = at(seconds, *before_);
  if (by_this <= now) return by_that <= now ? by_this : by_that;
  if (by_that <= now) return by_this;
  // Few workers acquire a timer that is longer than a large step of the clock, so of the two clocks
  // the timer was written by the one that leaves the shorter time. After a small step it may be
  // either, and no worker is to be ended early.
  const auto [sooner, later] = std::minmax({by_this, by_that});
  return later - sooner <= std::max(kLargeStep, sooner - now) ? later : sooner;
}

}  // namespace regroup::core::watchdog
