// Which node gets which rank when a round is sealed.
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
// order of groups and of names.
//
// With a `segment` above zero, every block of that many ranks, from 0 on, belongs to nodes of one
// group; the participants must be whole groups. Groups are in their natural order, except for
// wishes and for ranks that are kept.
std::vector<NodeId> rank_order(const State& state, std::int64_t segment = 0);

// n2 before n10: runs of digits compare as numbers.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace regroup::core::rendezvous
