#include "core/watchdog/beats.h"

#include <algorithm>

namespace regroup::core::watchdog {

BeatsVerdict judge(const std::vector<Beat>& beats, Instant now) {
  // A worker that chooses a longer limit wants none.
  constexpr Duration kEndless = std::chrono::hours(24 * 365 * 10);
  BeatsVerdict verdict;
  for (std::size_t worker = 0; worker < beats.size(); ++worker) {
    const Beat& beat = beats[worker];
    if (beat.limit <= Duration{} || beat.limit >= kEndless) continue;
    // A beat in the future was not taken from our clock, but the worker that stored it was alive
    // just now.
    const Instant last = std::clamp(beat.last, Instant{}, now);
    const Instant deadline = last + beat.limit;
    if (deadline < now)
      verdict.silent.push_back({.worker = worker, .silent_for = now - last, .limit = beat.limit});
    else
      verdict.next_deadline = std::min(deadline, verdict.next_deadline.value_or(deadline));
  }
  return verdict;
}

}  // namespace regroup::core::watchdog
