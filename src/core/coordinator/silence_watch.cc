#include "core/coordinator/silence_watch.h"

#include <algorithm>

namespace regroup::core::coordinator {
namespace {

// A busy machine wakes us no later than this.
constexpr Duration kOnTime = 100ms;

}  // namespace

void SilenceWatch::on_turn(Instant now, bool has_sessions) {
  if (has_sessions && now - last_turn_ > heartbeat_limit_ * 2 / 3) {
    lenient_until_ = now + heartbeat_limit_;
    // A timer that comes when it should means that we were awake, and that nobody spoke.
    if (next_look_ && now > *next_look_ + kOnTime) excused_until_ = now + heartbeat_limit_;
  }
  last_turn_ = now;
}

Duration SilenceWatch::grace(Instant now) const {
  return now < lenient_until_ ? std::max(reconnect_grace_, heartbeat_limit_) : reconnect_grace_;
}

void SilenceWatch::look_by(Instant at) {
  if (!next_look_ || at < *next_look_) next_look_ = at;
}

bool SilenceWatch::take_due(Instant now) {
  if (!next_look_ || now < *next_look_) return false;
  next_look_.reset();
  return true;
}

}  // namespace regroup::core::coordinator
