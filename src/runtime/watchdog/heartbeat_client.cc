// The worker's side of its heartbeat.
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "io/file/fifo.h"
#include "io/file/shared_cells.h"
#include "io/loop/clock.h"
#include "regroup/timer.h"
#include "runtime/common/limits.h"
#include "runtime/watchdog/worker_heartbeats.h"
#include "wire/text/timer_line.h"

namespace regroup {
namespace {

struct Heart {
  std::unique_ptr<io::SharedCells> cells;  // Null: there is no watchdog.
  std::mutex mutex;
  std::atomic<std::int64_t> told{0};  // The limit that the launcher was told.
};

// Never destroyed: a thread may beat at the very end of the program.
Heart& heart() {
  static auto* const the_one = [] {
    auto* made = new Heart;
    const char* path = ::getenv(runtime::kHeartbeatFile);
    if (path != nullptr && *path != '\0')
      if (auto opened = io::SharedCells::open(path, runtime::kHeartbeatCells))
        made->cells = std::move(*opened);
    return made;
  }();
  return *the_one;
}

Result<void> tell_launcher(Heart& heart, std::int64_t limit) {
  const std::lock_guard lock(heart.mutex);
  (*heart.cells)[runtime::kHeartbeatLimit].store(limit);
  const char* path = ::getenv("TORCHELASTIC_TIMER_FILE");
  const std::string line = wire::encode_timer_line(
      {.pid = ::getpid(), .scope = "heartbeat", .expiration = -1, .heartbeat = true});
  auto told = io::write_to_fifo(path == nullptr ? "" : path, line, runtime::kTimerPatience);
  if (!told) return fail(told.error().kind, "the heartbeat cannot begin: " + told.error().message);
  heart.told.store(limit);
  return {};
}

}  // namespace

Result<void> heartbeat(Duration limit) {
  Heart& ours = heart();
  if (ours.cells == nullptr) return {};
  // The beat first: with the old beat, a shorter limit might have run out already.
  (*ours.cells)[runtime::kHeartbeatBeat].store(io::now().since_start.count());
  // The cell is checked too: another process of this worker may have stopped the heartbeat, or
  // changed the limit.
  if (ours.told.load(std::memory_order_relaxed) == limit.count() &&
      (*ours.cells)[runtime::kHeartbeatLimit].load(std::memory_order_relaxed) == limit.count())
    return {};
  return tell_launcher(ours, limit.count());
}

void heartbeat_stop() {
  Heart& ours = heart();
  if (ours.cells == nullptr) return;
  const std::lock_guard lock(ours.mutex);
  (*ours.cells)[runtime::kHeartbeatLimit].store(0);
  ours.told.store(0);
}

}  // namespace regroup
