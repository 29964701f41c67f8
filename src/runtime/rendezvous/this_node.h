// Who this node is, in the eyes of the others.
#pragma once

#include <string>
#include <string_view>

#include "core/rendezvous/state.h"
#include "regroup/rendezvous.h"

namespace regroup::runtime {

// The id of one handler of this process: a new one each time.
core::rendezvous::NodeId make_node_id(const std::string& address);

// What people call it.
std::string name_of_this_node(const RendezvousParameters& parameters, const std::string& address);

// An address or a name that cannot be told to the others is InvalidArgument.
Result<void> check_addresses(const RendezvousParameters& parameters, const std::string& address);

}  // namespace regroup::runtime
