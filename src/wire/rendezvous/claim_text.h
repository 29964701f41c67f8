// What regroup adds to the shared state, as text. torchrun's nodes carry it along unread, as the
// attribute `regroup` of a node (its claim) and of the state (the seal).
//
//   claim = wish ":" held ":" name     "3:7.1.4:gpu-03"   wish: a rank, or "-"
//                                      "-:-:gpu-03"       held: "-", or round.rank.world_size
//   seal  = round ":" world size       "7:4"
//
// Numbers are 0 or more, in decimal, without leading zeros or signs. The name is the rest, with
// anything in it. Another form comes from a later version, and is ignored.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/rendezvous/state.h"

namespace regroup::wire {

std::string write_claim(const core::rendezvous::Claim& claim);
std::optional<core::rendezvous::Claim> parse_claim(std::string_view text);

std::string write_seal(const core::rendezvous::Seal& seal);
std::optional<core::rendezvous::Seal> parse_seal(std::string_view text);

}  // namespace regroup::wire
