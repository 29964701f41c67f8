#include "core/hang/hang.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/seconds.h"
#include "base/text.h"

namespace regroup::core::hang {
namespace {

constexpr Duration kShortestPause = 100ms;
constexpr Duration kLongestPause = 15s;
// Looks per timeout: what is missed between two of them makes a verdict late by an eighth at most.
constexpr int kLooks = 8;
// Threads that only keep watch (of a collective library, of a monitor) use less than this share of
// one CPU, training uses far more.
constexpr double kIdleCpu = 0.02;
// A monitor that reads /proc moves less than this, a loader or a checkpoint moves more.
constexpr double kIdleBytesPerSecond = 64.0 * 1024;
// A worker that has been quiet for this part of the timeout waits: it is not just between two
// steps.
constexpr int kWaitingPart = 4;

}  // namespace

HangDetector::HangDetector(const Settings& settings, int workers, Instant started)
    : settings_(settings),
      pause_(std::clamp(settings.timeout / kLooks, kShortestPause, kLongestPause)),
      last_look_(started),
      next_look_(started + settings.grace) {
  CHECK(workers > 0);
  workers_.resize(static_cast<std::size_t>(workers));
}

void HangDetector::on_look(const std::vector<std::optional<Sample>>& workers, Instant now) {
  CHECK(workers.size() == workers_.size());
  const Duration since_last = now - last_look_;
  // No look came for a while, so we did not run either: the machine, or the job, was suspended.
  const Duration lost = since_last > 3 * pause_ ? since_last - pause_ : Duration{};
  // A worker that waited for one that has ended may not have noticed yet: all timeouts begin anew.
  bool ended = false;
  for (std::size_t i = 0; i < workers.size(); ++i)
    ended |= std::exchange(workers_[i].running, workers[i].has_value()) && !workers[i];
  for (std::size_t i = 0; i < workers.size(); ++i) {
    Worker& worker = workers_[i];
    if (!worker.running) continue;
    if (!worker.last || ended) {
      worker.quiet_since = worker.silent_since = worker.still_since = now;
    } else {
      worker.quiet_since = worker.quiet_since + lost;
      worker.silent_since = worker.silent_since + lost;
      worker.still_since = worker.still_since + lost;
      if (!disturbed_) judge(worker, *workers[i], since_last, now);
    }
    worker.last = workers[i];
  }
  disturbed_ = false;
  last_look_ = now;
  next_look_ = now + pause_;
}

void HangDetector::judge(Worker& worker, const Sample& sample, Duration since_last,
                         Instant now) const {
  const Sample& last = *worker.last;
  // A count that went down: a child has ended, so something happened.
  const bool moved = sample.moved < last.moved || static_cast<double>(sample.moved - last.moved) >
                                                      kIdleBytesPerSecond * in_seconds(since_last);
  const bool shown =
      sample.held || sample.written != last.written || sample.requests != last.requests || moved;
  const bool busy = sample.cpu < last.cpu ||
                    in_seconds(sample.cpu - last.cpu) > kIdleCpu * in_seconds(since_last);
  if (shown) worker.silent_since = now;
  if (sample.turns != last.turns) worker.still_since = now;
  if (shown || busy) worker.quiet_since = now;
}

std::optional<Stall> HangDetector::stalled() const {
  Stall stall;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = workers_[i];
    if (!worker.running) continue;
    if (!worker.last) return {};
    const Duration quiet = last_look_ - worker.quiet_since;
    const auto rank = static_cast<int>(i);
    if (last_look_ - worker.still_since >= settings_.timeout) stall.still.push_back(rank);
    if (quiet >= settings_.timeout) {
      stall.suspects.push_back(rank);
      stall.quiet = std::max(stall.quiet, quiet);
    } else if (quiet >= settings_.timeout / kWaitingPart) {
      stall.waiting.push_back(rank);
    } else if (last_look_ - worker.silent_since >= settings_.timeout) {
      stall.spinning.push_back(rank);
    } else {
      return {};
    }
  }
  if (stall.suspects.empty() && stall.spinning.empty()) return {};
  return stall;
}

Votes votes_of(const Stall& stall) {
  return {.suspects = static_cast<int>(stall.suspects.size()),
          .spinning = static_cast<int>(stall.spinning.size())};
}

bool is_hang(const Votes& all) {
  return all.suspects > 0 && (all.spinning == 0 || all.suspects < all.spinning);
}

std::string signals_in_words(Duration quiet) {
  return "written nothing, moved no data, used no CPU time and sent no timer request for " +
         in_words(std::chrono::floor<std::chrono::seconds>(quiet));
}

}  // namespace regroup::core::hang
