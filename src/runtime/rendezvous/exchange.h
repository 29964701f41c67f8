// What agents tell each other in a round's store, once they have their ranks: who runs how many
// workers of which role, and, at the end, that they are done. The keys are torchrun's (2.4 and
// newer), so its agents take part.
#pragma once

#include <cstdint>
#include <functional>

#include "core/rendezvous/assign_ranks.h"
#include "regroup/result.h"
#include "regroup/store.h"
#include "regroup/time.h"

namespace regroup::runtime {

// TORCH_ELASTIC_WORKER_IDENTICAL=1, on every node.
bool nodes_are_identical();

// Every member of the round calls it, with `mine.rank` its own rank; rank 0 works the ranks out for
// all. If all nodes are identical nothing is exchanged: they run as many workers, of one role.
// `go_on` is asked now and then while others are waited for; false ends it with Cancelled.
Result<core::rendezvous::AssignedRanks> exchange_ranks(Store& store, std::int64_t world_size,
                                                       const core::rendezvous::RoleInfo& mine,
                                                       const std::function<bool()>& go_on = {});

// Returns when all members of the round have come. It counts arrivals: a node that comes twice
// stands for another that has not come.
Result<void> exit_barrier(Store& store, std::int64_t world_size, Duration limit = 300s);

// The same in two steps, for a caller that must not block for so long: the first once, the second
// as often as it likes.
Result<void> arrive_at_exit(Store& store, std::int64_t world_size);
Result<bool> is_exit_complete(Store& store);

}  // namespace regroup::runtime
