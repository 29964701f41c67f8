#include "runtime/evidence/stuck_workers.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "io/loop/clock.h"
#include "io/process/process_table.h"

namespace regroup::runtime {
namespace {

constexpr Duration kSeldom = 10ms;  // Never more often than this, however short the limit is.
// At least this often: a worker that wakes in between is not stuck.
constexpr Duration kOften = 500ms;
constexpr char kUninterruptible = 'D';

}  // namespace

StuckWorkers::StuckWorkers(io::Loop& loop, Duration limit, Questions questions)
    : limit_(limit), questions_(std::move(questions)), next_(loop) {
  if (limit_ > Duration{}) look();
}

void StuckWorkers::look() {
  const Instant now = io::now();
  std::map<pid_t, Seen> still;
  for (const auto& [local_rank, pid] : questions_.pids()) {
    const auto process = io::find_process(pid);
    if (!process || process->state != kUninterruptible) continue;
    const auto before = seen_.find(pid);
    Seen seen = before == seen_.end() ? Seen{.since = now} : before->second;
    const Duration stuck = now - seen.since;
    if (stuck >= limit_ && !std::exchange(seen.told, true)) {
      const std::string channel = io::wait_channel(pid);
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(stuck).count();
      questions_.found(local_rank, fmt::format("the kernel has not let it go for {} s (state D{})",
                                               seconds, channel.empty() ? "" : ", in " + channel));
    }
    still.emplace(pid, seen);
  }
  seen_ = std::move(still);
  next_.set(now + std::clamp(limit_ / 4, kSeldom, kOften), [this] { look(); });
}

}  // namespace regroup::runtime
