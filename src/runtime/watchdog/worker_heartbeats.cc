#include "runtime/watchdog/worker_heartbeats.h"

#include <fmt/core.h>

#include <utility>

#include "core/watchdog/beats.h"
#include "io/loop/clock.h"
#include "runtime/watchdog/watchdog_host.h"

namespace regroup::runtime {

using core::watchdog::Beat;
using core::watchdog::Silent;

WorkerHeartbeats::WorkerHeartbeats(io::Loop& loop, Silenced silenced)
    : silenced_(std::move(silenced)), deadline_(loop) {}

Result<std::vector<std::string>> WorkerHeartbeats::open(int workers) {
  close();
  std::vector<std::string> paths;
  paths.reserve(static_cast<std::size_t>(workers));
  for (int rank = 0; rank < workers; ++rank) {
    auto cells = io::SharedCells::create(kHeartbeatCells);
    if (!cells) {
      close();
      return tl::unexpected(cells.error());
    }
    paths.push_back((*cells)->path());
    cells_.push_back(std::move(*cells));
  }
  return paths;
}

void WorkerHeartbeats::look() { judge(); }

void WorkerHeartbeats::close() {
  deadline_.cancel();
  cells_.clear();
}

void WorkerHeartbeats::judge() {
  std::vector<Beat> beats(cells_.size());
  const Instant now = io::now();
  for (std::size_t rank = 0; rank < cells_.size(); ++rank) {
    if (cells_[rank] == nullptr) continue;
    beats[rank].limit = Duration((*cells_[rank])[kHeartbeatLimit].load());
    beats[rank].last = Instant{Duration((*cells_[rank])[kHeartbeatBeat].load())};
  }
  const auto verdict = core::watchdog::judge(beats, now);
  if (verdict.next_deadline)
    // A nanosecond later, because exactly at the limit is still in time.
    deadline_.set(*verdict.next_deadline + 1ns, [this] { judge(); });
  else
    deadline_.cancel();
  for (const Silent& one : verdict.silent) {
    cells_[one.worker].reset();
    silenced_(static_cast<int>(one.worker),
              fmt::format("no heartbeat for {} (limit {})", limit_in_words(one.silent_for),
                          limit_in_words(one.limit)));
    if (cells_.empty()) return;  // That was the end of the group.
  }
}

}  // namespace regroup::runtime
