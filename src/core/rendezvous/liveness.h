// Which nodes have gone silent, judged by what this node itself has seen on its own monotonic
// clock.
//
// A heartbeat in the shared state is a stamp of its writer's wall clock. Its value says nothing
// here; that it changes does. A node is silent when its stamp has stayed the same for longer than
// the limit, counted from the moment we first had it to the moment we asked for the state in which
// it still was the same. Counting to the moment of asking and not of the answer keeps a slow store
// from condemning healthy nodes; and of a time in which we saw nothing at all, because the store
// was away or we were, only as much counts as lies between two heartbeats.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/instant.h"
#include "core/rendezvous/state.h"

namespace regroup::core::rendezvous {

class Liveness {
 public:
  explicit Liveness(Duration heartbeat_interval) : interval_(heartbeat_interval) {}

  // A state that was asked for at `asked` and is here at `now`.
  void observe(const State& state, Instant asked, Instant now);

  // The nodes of the observed state that are silent. `self` is never among them.
  std::vector<NodeId> silent(const NodeId& self, Duration limit) const;

  // How long ago the state's deadline was first seen. The node that sets one judges it by its own
  // clock, and so does every other node: the first to see the end of the last call seals the round.
  bool last_call_over(Duration last_call, Instant now) const;
  std::optional<Instant> last_call_end(Duration last_call) const;

 private:
  struct Heard {
    Stamp stamp;
    Instant since;  // Moved later by any time in which nothing was seen.
  };
  std::map<NodeId, Heard> heard_;
  std::optional<Stamp> deadline_;
  Instant deadline_seen_;
  const Duration interval_;
  std::optional<Instant> asked_;
};

}  // namespace regroup::core::rendezvous
