#include "core/coordinator/other_nodes.h"

namespace regroup::core::coordinator {

namespace {

constexpr Duration kLookEvery = 1s;

}  // namespace

OtherNodes::OtherNodes(const rendezvous::Settings& settings, Instant now)
    : silence_limit_(settings.silence_limit()),
      refresh_after_(settings.keep_alive_interval * 3 / 4),
      liveness_(settings.keep_alive_interval),
      refreshed_(now) {}

void OtherNodes::look_soon(Instant now) {
  if (!next_look_) next_look_ = now + kLookEvery;
}

bool OtherNodes::take_due(Instant now) {
  if (!next_look_ || now < *next_look_) return false;
  next_look_.reset();
  return true;
}

std::vector<rendezvous::NodeId> OtherNodes::silent(const rendezvous::State& state, Instant now) {
  liveness_.observe(state, now, now);
  return liveness_.silent({}, silence_limit_);
}

bool OtherNodes::take_refresh(Instant now) {
  if (now - refreshed_ < refresh_after_) return false;
  refreshed_ = now;
  return true;
}

}  // namespace regroup::core::coordinator
