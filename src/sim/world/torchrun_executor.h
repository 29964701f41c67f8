// A torchrun node's hand on the shared state, played with the steps of core's Executor.
//
// Written anew from torchrun's own tables and not from core's, so that the two can be held against
// each other. The differences that matter here: it judges others by its wall clock, itself
// included; it looks once a second and does not back off; it starts with whatever is left of a
// sealed round; it writes neither claims nor a seal; and any failure of the store ends its
// operation.
#pragma once

#include <optional>
#include <string>

#include "core/rendezvous/executor.h"

namespace regroup::sim {

class TorchrunExecutor {
 public:
  TorchrunExecutor(core::rendezvous::Settings settings, core::rendezvous::NodeId self);

  core::rendezvous::Step begin(core::rendezvous::Operation operation, Duration limit,
                               core::rendezvous::Now now);
  core::rendezvous::Step on_read(std::optional<core::rendezvous::Snapshot> present,
                                 core::rendezvous::Now now);
  core::rendezvous::Step on_won(std::string token, core::rendezvous::Now now);
  core::rendezvous::Step on_lost(std::optional<core::rendezvous::Snapshot> present,
                                 core::rendezvous::Now now);
  core::rendezvous::Step on_rested(core::rendezvous::Now now);
  core::rendezvous::Step on_unreachable(core::rendezvous::Now now);

  const core::rendezvous::State& state() const { return state_; }
  const core::rendezvous::State& joined() const { return joined_; }
  core::rendezvous::Standing standing() const;

 private:
  core::rendezvous::Step synced(core::rendezvous::Now now);
  core::rendezvous::Step proceed(core::rendezvous::Now now);
  core::rendezvous::Action decide(core::rendezvous::Now now) const;
  core::rendezvous::Action decide_join(core::rendezvous::Now now) const;
  core::rendezvous::State changed(core::rendezvous::Action action, core::rendezvous::Now now) const;
  bool heartbeat_due(core::rendezvous::Now now) const;

  const core::rendezvous::Settings settings_;
  const core::rendezvous::NodeId self_;
  core::rendezvous::Operation operation_ = core::rendezvous::Operation::Look;
  Instant give_up_;
  core::rendezvous::State state_;
  core::rendezvous::State joined_;
  core::rendezvous::State pending_;
  bool leaves_spares_ = false;  // What the swap under way does; then the join has its time again.
  std::optional<std::string> token_;
  std::optional<Instant> seen_;
};

}  // namespace regroup::sim
