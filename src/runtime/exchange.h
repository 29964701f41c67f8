// What agents tell each other in a round's store, once they have their ranks: who runs how many
// workers of which role, and, at the end, that they are done. The keys are torchrun's (2.4 and
// newer), so its agents take part.
#pragma once

#include <cstdint>

#include "core/rendezvous/assign_ranks.h"
#include "regroup/result.h"
#include "regroup/store.h"
#include "regroup/time.h"

namespace regroup::runtime {

// TORCH_ELASTIC_WORKER_IDENTICAL=1, on every node.
bool nodes_are_identical();

// Every member of the round calls it, with `mine.rank` its own rank; rank 0 works the ranks out for
// all. If all nodes are identical nothing is exchanged: they run as many workers, of one role.
Result<core::rendezvous::AssignedRanks> exchange_ranks(Store& store, std::int64_t world_size,
                                                       const core::rendezvous::RoleInfo& mine);

// Returns when all members of the round have come. It counts arrivals: a node that comes twice
// stands for another that has not come.
Result<void> exit_barrier(Store& store, std::int64_t world_size, Duration limit = 300s);

}  // namespace regroup::runtime
