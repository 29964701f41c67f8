// What must be true where nodes without a session are in the run.
#include <fmt/core.h>

#include <string>

#include "sim/session/session_invariants.h"
#include "sim/world/trace.h"

namespace regroup::sim {

using core::rendezvous::NodeId;

void SessionInvariants::other_left(const NodeId& id, std::int64_t round) {
  gone_[round].insert(id);
  broken_.insert(round);
}

// A node whose round has lost a member is told to stop at once.
void SessionInvariants::check_broken(const std::vector<SessionView>& nodes) {
  for (const SessionView& node : nodes)
    if (node.connected && node.runs && broken_.contains(*node.runs) &&
        !stopped_.contains(*node.runs))
      violated(fmt::format("{} runs on in {}, and one without a session has left it",
                           short_name(node.id), round_text(*node.runs)));
}

void SessionInvariants::others_sealed(std::int64_t round, const std::vector<SessionView>& nodes,
                                      Instant now) {
  if (sealed_ && round <= *sealed_)
    violated(fmt::format("{} was sealed after {}", round_text(round), round_text(*sealed_)));
  sealed_ = round;
  others_were_first_ = true;
  check_old_workers(nodes, round, now);
}

// What members are told is what nodes without a session read.
void SessionInvariants::check_seats(const core::rendezvous::State& state) {
  if (!state.complete || state.round != sealing_.front().sealed.round) return;  // It is over.
  for (const Seat& seat : sealing_) {
    const auto found = state.participants.find(seat.id);
    const auto size = static_cast<std::int64_t>(state.participants.size());
    if (found == state.participants.end() || found->second != seat.sealed.rank ||
        size != seat.sealed.world_size)
      violated(fmt::format("{} was told of rank {} of {}, which is not in the state of {}",
                           short_name(seat.id), seat.sealed.rank, seat.sealed.world_size,
                           round_text(state.round)));
  }
}

}  // namespace regroup::sim
