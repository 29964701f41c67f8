// Whether the round hangs depends on all its nodes: each reports only on itself, the coordinator
// puts the reports together here, and every node is told the result.
#include <utility>

#include "core/coordinator/coordinator.h"

namespace regroup::core::coordinator {

std::optional<std::int64_t> Coordinator::seat_of(const Node& node, std::int64_t round) const {
  if (!is_running() || round != state_.round || !last_round_.is(round) ||
      node.doing != Doing::Running)
    return std::nullopt;
  const auto found = state_.participants.find(node.id);
  if (found == state_.participants.end()) return std::nullopt;
  return found->second;
}

void Coordinator::tell_members(const FromCoordinator& message, Effects& effects) const {
  for (const auto& [id, rank] : state_.participants)
    if (const auto found = nodes_.find(id); found != nodes_.end())
      send(found->second, message, effects);
}

void Coordinator::on_stalled(const Node& node, const Stalled& stalled, Effects& effects) {
  const auto seat = seat_of(node, stalled.round);
  if (!seat) return;
  if (council_of_ != stalled.round) {
    council_of_ = stalled.round;
    // Not as many as are here: to a coordinator that was started again they come back one by one.
    council_ = hang::Council(last_round_.world_size());
  }
  if (const auto hangs = council_.on_stalled(*seat, stalled.votes))
    tell_members(Hangs{.round = stalled.round, .all_say_so = *hangs}, effects);
  else if (council_.hangs())
    // It may have missed what the others were told while its connection was lost.
    send(node, Hangs{.round = stalled.round, .all_say_so = true}, effects);
}

void Coordinator::on_where(const Node& node, const Where& where, Effects& effects) {
  const auto seat = seat_of(node, where.round);
  if (!seat || council_of_ != where.round) return;
  if (auto blame = council_.on_where(*seat, where.ranks))
    tell_members(Blamed{.round = where.round, .blame = std::move(*blame)}, effects);
}

void Coordinator::leaves_council(const Node& node, Effects& effects) {
  if (council_of_ != state_.round) return;
  if (const auto seat = seat_of(node, state_.round))
    if (const auto hangs = council_.on_stalled(*seat, std::nullopt))
      tell_members(Hangs{.round = state_.round, .all_say_so = *hangs}, effects);
}

}  // namespace regroup::core::coordinator
