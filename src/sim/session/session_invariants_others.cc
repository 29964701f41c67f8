// What must be true where nodes without a session are in the run.
#include <string>

#include "sim/session/session_invariants.h"
#include "sim/world/trace.h"

namespace regroup::sim {

using core::rendezvous::NodeId;

void SessionInvariants::other_left(const NodeId& id, std::int64_t round) {
  gone_[round].insert(id);
  broken_.insert(round);
}

// Whose round has lost a member is told to stop at once.
void SessionInvariants::check_broken(const std::vector<SessionView>& nodes) {
  for (const SessionView& node : nodes)
    if (node.connected && node.runs && broken_.contains(*node.runs) &&
        !stopped_.contains(*node.runs))
      violated(short_name(node.id) + " runs on in " + round_text(*node.runs) +
               ", and one without a session has left it");
}

void SessionInvariants::others_sealed(std::int64_t round, const std::vector<SessionView>& nodes,
                                      Instant now) {
  if (sealed_ && round <= *sealed_)
    violated(round_text(round) + " was sealed after " + round_text(*sealed_));
  sealed_ = round;
  others_were_first_ = true;
  check_old_workers(nodes, round, now);
}

// What they are told is what those without a session read.
void SessionInvariants::check_seats(const core::rendezvous::State& state) {
  if (!state.complete || state.round != sealing_.front().sealed.round) return;  // It is over.
  for (const Seat& seat : sealing_) {
    const auto found = state.participants.find(seat.id);
    const auto size = static_cast<std::int64_t>(state.participants.size());
    if (found == state.participants.end() || found->second != seat.sealed.rank ||
        size != seat.sealed.world_size)
      violated(short_name(seat.id) + " was told of rank " + std::to_string(seat.sealed.rank) +
               " of " + std::to_string(seat.sealed.world_size) + ", which is not in the state of " +
               round_text(state.round));
  }
}

}  // namespace regroup::sim
