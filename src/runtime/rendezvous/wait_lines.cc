#include "runtime/rendezvous/wait_lines.h"

#include <algorithm>

#include "runtime/common/limits.h"
#include "runtime/common/log.h"

namespace regroup::runtime {
namespace {

// A wait that is over so soon is not worth a line.
constexpr Duration kQuietAtFirst = 1s;

}  // namespace

void WaitLines::begin(Instant now) {
  began_ = last_said_ = now;
  said_.clear();
  shown_.clear();
  shown_until_.reset();
}

void WaitLines::tell(Instant now, const Wait& wait) {
  if (on_wait_ && (wait.brief != shown_ || wait.until != shown_until_)) {
    shown_ = wait.brief;
    shown_until_ = wait.until;
    RendezvousWait told{.text = shown_, .so_far = now - began_};
    if (wait.until) told.left = std::max(*wait.until - now, Duration{});
    on_wait_(told);
  }
  if (now - began_ < kQuietAtFirst) return;
  const bool changed = wait.what != said_ && now - last_said_ >= kQuietAtFirst;
  if (!changed && now - last_said_ < kSayAgain) return;
  said_ = wait.what;
  last_said_ = now;
  const std::string line = wait.what + wait.limit;
  if (on_status_)
    on_status_(line);
  else
    log_info(line);
}

}  // namespace regroup::runtime
