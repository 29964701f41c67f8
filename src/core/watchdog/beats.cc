#include "core/watchdog/beats.h"

#include <algorithm>

namespace regroup::core::watchdog {

BeatsVerdict judge(const std::vector<Beat>& beats, Instant now) {
  // Who chooses a longer one wants none.
  constexpr Duration kEndless = std::chrono::hours(24 * 365 * 10);
  BeatsVerdict verdict;
  for (std::size_t worker = 0; worker < beats.size(); ++worker) {
    const Beat& beat = beats[worker];
    if (beat.limit <= Duration{} || beat.limit >= kEndless) continue;
    // A beat of the future is no beat of our clock: whoever stored it has just been alive.
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
