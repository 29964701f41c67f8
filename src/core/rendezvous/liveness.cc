#include "core/rendezvous/liveness.h"

#include <algorithm>

namespace regroup::core::rendezvous {

void Liveness::observe(const State& state, Instant asked, Instant now) {
  const Duration unseen = asked_ ? std::max(Duration{}, asked - *asked_ - interval_) : Duration{};
  asked_ = asked;
  // Both are sorted by node: one walk keeps what is known, adds what is new, drops what is gone.
  auto known = heard_.begin();
  for (const auto& [node, stamp] : state.last_heartbeats) {
    while (known != heard_.end() && known->first < node) known = heard_.erase(known);
    if (known != heard_.end() && known->first == node) {
      if (known->second.stamp != stamp)
        known->second = {stamp, now};
      else
        known->second.since = known->second.since + unseen;
      ++known;
    } else {
      heard_.emplace_hint(known, node, Heard{stamp, now});
    }
  }
  heard_.erase(known, heard_.end());

  if (state.deadline != deadline_) {
    deadline_ = state.deadline;
    deadline_seen_ = now;
  }
}

std::vector<NodeId> Liveness::silent(const NodeId& self, Duration limit) const {
  std::vector<NodeId> nodes;
  for (const auto& [node, heard] : heard_)
    if (*asked_ - heard.since > limit && node != self) nodes.push_back(node);
  return nodes;
}

bool Liveness::last_call_over(Duration last_call, Instant now) const {
  const auto end = last_call_end(last_call);
  return end && *end < now;
}

std::optional<Instant> Liveness::last_call_end(Duration last_call) const {
  if (!deadline_) return std::nullopt;
  return deadline_seen_ + last_call;
}

}  // namespace regroup::core::rendezvous
