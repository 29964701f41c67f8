#include "runtime/health/health_probe.h"

#include <algorithm>

#include "io/loop/clock.h"
#include "runtime/common/limits.h"

namespace regroup::runtime {

void HealthBoard::put(HealthSnapshot snapshot) {
  auto made = std::make_shared<const HealthSnapshot>(std::move(snapshot));
  const std::lock_guard lock(mutex_);
  last_ = {std::move(made), io::now()};
}

HealthBoard::Posted HealthBoard::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

HealthProbe::HealthProbe(io::Loop& asking, io::Loop& probed, Duration limit,
                         std::function<HealthSnapshot()> look, std::shared_ptr<HealthBoard> board,
                         std::shared_ptr<bool> here)
    : asking_(asking),
      probed_(probed),
      limit_(limit),
      patience_(std::clamp(limit, kHealthLeastPatience, kHealthPatience)),
      look_(std::move(look)),
      board_(std::move(board)),
      here_(std::move(here)),
      enough_(asking),
      self_(std::make_shared<HealthProbe*>(this)) {}

HealthProbe::~HealthProbe() { *self_ = nullptr; }

void HealthProbe::ask(Done done) {
  const Instant now = io::now();
  waiting_.push_back(std::move(done));
  if (!asked_) {
    asked_ = now;
    probed_.post([&asking = asking_, look = look_, board = board_, here = here_, self = self_] {
      if (!*here) return;
      board->put(look());
      asking.post([self] {
        if (*self != nullptr) (*self)->turned();
      });
    });
  }
  // Set again for every request: it is the same instant, unless the loop has hung for longer.
  enough_.set(std::max(now, *asked_ + patience_), [this] { answer(); });
}

void HealthProbe::turned() {
  asked_.reset();
  enough_.cancel();
  answer();
}

void HealthProbe::answer() {
  const auto [snapshot, at] = board_->last();
  // A snapshot that it published by itself counts as a turn, too.
  const Duration stuck_for =
      asked_ ? std::max(Duration{1}, io::now() - std::max(*asked_, at)) : Duration{};
  for (const Done& done : std::exchange(waiting_, {}))
    done(*snapshot, {.stuck_for = stuck_for, .limit = limit_});
}

}  // namespace regroup::runtime
