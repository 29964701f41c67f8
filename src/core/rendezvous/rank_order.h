// Who gets which rank when a round is sealed.
#pragma once

#include <string_view>
#include <vector>

#include "core/rendezvous/state.h"

namespace regroup::core::rendezvous {

// The participants in the order of their ranks.
//
// If a torchrun node is among them: torchrun's order, because it may be the one that seals.
// Otherwise a wish (--node-rank) that fits comes first; then, if the world is as large as in the
// last round, its members keep their ranks; the rest fills the holes by wish, then in the natural
// order of names.
std::vector<NodeId> rank_order(const State& state);

// n2 before n10: runs of digits compare as numbers.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace regroup::core::rendezvous
