// Whether the round hangs depends on all its nodes: each reports only on itself, the coordinator
// puts the reports together here, and every node is told the result.
#include <utility>

#include "core/coordinator/coordinator.h"

namespace regroup::core::coordinator {

hang::Council& Coordinator::council() {
  if (council_of_ != last_round_.number()) {
    council_of_ = last_round_.number();
    // Not as many as are here: to a coordinator that was started again they come back one by one.
    council_ = hang::Council(last_round_.world_size());
  }
  return council_;
}

// The round may have been stopped, or the run closed: what matters is that workers of it run. They
// may run on though nobody waits for them any more, and hang.
std::optional<std::int64_t> Coordinator::seat_of(const Node& node, std::int64_t round) const {
  if (!state_.complete || round != state_.round || !last_round_.is(round)) return std::nullopt;
  const auto found = state_.participants.find(node.id);
  if (found == state_.participants.end()) return std::nullopt;
  return found->second;
}

void Coordinator::tell_running(const FromCoordinator& message, Effects& effects) const {
  for (const auto& [id, rank] : state_.participants)
    if (const auto found = nodes_.find(id);
        found != nodes_.end() && found->second.doing == Doing::Running)
      send(found->second, message, effects);
}

void Coordinator::on_stalled(const Node& node, const Stalled& stalled, Effects& effects) {
  const auto seat = seat_of(node, stalled.round);
  if (!seat || node.doing != Doing::Running) return;
  if (const auto hangs = council().on_stalled(*seat, stalled.votes))
    tell_running(Hangs{.round = stalled.round, .all_say_so = *hangs}, effects);
  else if (council().hangs())
    // It may have missed what the others were told while its connection was lost.
    send(node, Hangs{.round = stalled.round, .all_say_so = true}, effects);
}

void Coordinator::on_where(const Node& node, const Where& where, Effects& effects) {
  const auto seat = seat_of(node, where.round);
  if (!seat || node.doing != Doing::Running) return;
  if (auto blame = council().on_where(*seat, where.ranks))
    tell_running(Blamed{.round = where.round, .blame = std::move(*blame)}, effects);
}

bool Coordinator::hangs_unnamed() const {
  return council_of_ == state_.round && council_.hangs() && !council_.named();
}

void Coordinator::leave_council(const Node& node, Effects& effects) {
  const auto seat = seat_of(node, state_.round);
  if (!seat) return;
  if (const auto hangs = council().on_ended(*seat))
    tell_running(Hangs{.round = state_.round, .all_say_so = *hangs}, effects);
}

void Coordinator::mark_done(Node& node, Effects& effects) {
  node.doing = Doing::Done;
  leave_council(node, effects);
}

}  // namespace regroup::core::coordinator
