// The built-in rendezvous backends.
#pragma once

#include <memory>
#include <string>

#include "regroup/rendezvous.h"

namespace regroup::runtime {

// Nodes come and go; the state is kept in a store at the endpoint, as torchrun keeps it.
Result<std::unique_ptr<RendezvousHandler>> make_c10d_rendezvous(
    const RendezvousParameters& parameters);

// Fixed ranks: node_rank of max_nodes, once and for all. Rank 0 serves the store at the endpoint.
Result<std::unique_ptr<RendezvousHandler>> make_static_rendezvous(
    const RendezvousParameters& parameters);

// What the static backend would refuse.
Result<void> check_static(const RendezvousParameters& parameters);

// There is a backend of this name.
Result<void> check_backend(const std::string& name);

}  // namespace regroup::runtime
