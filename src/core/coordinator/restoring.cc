#include "core/coordinator/restoring.h"

#include <algorithm>

namespace regroup::core::coordinator {

bool Restoring::can_be(const HeldRank& place) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  return place.round >= 0 && place.round < kMost && place.rank >= 0 &&
         place.rank < place.world_size;
}

Restoring::Returned Restoring::on_hello(const NodeId& node, const std::optional<HeldRank>& place,
                                        bool again, Instant now) {
  const bool was_in_round = place && can_be(*place);
  if (was_in_round) next_round_ = std::max(next_round_, place->round + 1);
  const bool is_new = now < young_until_ && seen_.insert(node).second;
  if (is_past_) return Returned::Elsewhere;
  if (is_new && !hold_until_ && (was_in_round || again)) hold_until_ = young_until_;
  if (!was_in_round || place->round < latest_.round) return Returned::Elsewhere;
  const bool is_later = place->round > latest_.round;
  if (is_later) latest_ = {.round = place->round, .world_size = place->world_size};
  latest_.ranks.insert(place->rank);
  return is_later ? Returned::OfALaterRound : Returned::OfTheLatestRound;
}

void Restoring::hold_for_round(Instant now) {
  failure_.reset();
  hold_until_ = now + heartbeat_limit_;
}

void Restoring::keep_failure(const NodeId& node, const Failed& failed) {
  if (!failure_) failure_.emplace(node, failed);
}

Restoring::Found Restoring::end_hold() {
  hold_until_.reset();
  Found found{.failure = std::exchange(failure_, {}),
              .missing = latest_.world_size - static_cast<std::int64_t>(latest_.ranks.size())};
  if (latest_.round >= 0 && found.missing == 0) found.whole_round = latest_.round;
  return found;
}

}  // namespace regroup::core::coordinator
