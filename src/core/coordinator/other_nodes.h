// When to look after the nodes without a session (torchrun's), which see the run's state through
// the store: when their heartbeats are judged, and when ours are written for them.
#pragma once

#include <optional>
#include <vector>

#include "base/instant.h"
#include "core/rendezvous/liveness.h"
#include "core/rendezvous/settings.h"
#include "core/rendezvous/state.h"

namespace regroup::core::coordinator {

class OtherNodes {
 public:
  OtherNodes(const rendezvous::Settings& settings, Instant now);

  // There may be nodes without a session: they look at the state about once a second, and we look
  // at them as often.
  void look_soon(Instant now);
  // True once for each time that has come. If the caller finds such nodes it calls look_soon()
  // again.
  bool take_due(Instant now);
  std::optional<Instant> next_look() const { return next_look_; }

  // The heartbeats of all nodes of the state, including ours.
  std::vector<rendezvous::NodeId> silent(const rendezvous::State& state, Instant now);

  // Whether our heartbeats in the state are due for an update, as often as a node without a
  // coordinator would send them. In between, the state must stay as it is, or no swap of those
  // nodes could succeed.
  bool take_refresh(Instant now);

 private:
  const Duration silence_limit_;
  const Duration refresh_after_;
  rendezvous::Liveness liveness_;
  std::optional<Instant> next_look_;
  Instant refreshed_;
};

}  // namespace regroup::core::coordinator
