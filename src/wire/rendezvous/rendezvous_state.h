// The shared rendezvous state as torchrun's nodes keep it in a store: a Python pickle of the class
// _RendezvousState. In the store it is wrapped in base64 (base64.h).
//
// It understands the states of PyTorch 2.3 and newer, in the pickle protocols 3 to 5; which of the
// two kinds of times a state has is its `dialect`. Nothing in a pickle is ever called or looked up;
// see pickle_reader.h. The limits are in limits.h.
//
// What regroup adds travels as text in an attribute `regroup` (claim_text.h): the seal on the
// state, a claim on each node in one of the three lists. A text that this version does not
// understand counts as none. Attributes of the state that we do not know are kept (State::extra)
// and written back; those of a node are dropped.
#pragma once

#include <string>
#include <string_view>

#include "core/rendezvous/state.h"
#include "regroup/result.h"

namespace regroup::wire {

// Protocol 4. The same state always gives the same bytes, and decode_state() gives the same state
// back, except for what has no place in the pickle: the dialect of a state without any time, and
// claims of nodes in none of the lists. Addresses and names are UTF-8, at most kAddressBytes and
// kClaimBytes long: others could not read the state otherwise.
std::string encode_state(const core::rendezvous::State& state);

// ErrorKind::Protocol, and the message says what is wrong and at which byte; or
// ErrorKind::Unsupported if the writer's PyTorch is too old. A state without any time in it counts
// as AwareTimes.
Result<core::rendezvous::State> decode_state(std::string_view pickle);

}  // namespace regroup::wire
