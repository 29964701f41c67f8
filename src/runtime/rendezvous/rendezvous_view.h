// A look at a run from outside: what its nodes share, for people, and the end of it. No node joins
// here, and nothing is created: a run that no node has begun is not begun by a look.
#pragma once

#include <memory>
#include <string>

#include "core/rendezvous/state.h"
#include "regroup/rendezvous.h"
#include "regroup/result.h"
#include "regroup/store.h"
#include "regroup/time.h"

namespace regroup::runtime {

// The store of a run of the c10d backend, found by `endpoint` and `config` (store_type) of the
// parameters as a joining node finds it; but this machine never hosts it, and no file is made.
// `limit` is for finding it and for each call afterwards.
Result<std::shared_ptr<Store>> open_run_store(const RendezvousParameters& parameters,
                                              Duration limit);

// What the nodes share. ErrorKind::Refused: there is no such run; Corrupt: it cannot be read.
Result<core::rendezvous::State> look_at_run(Store& store, const std::string& run_id);

// For people: whole lines, each with its end. `now` is on this machine's clock, by which the age of
// a heartbeat is told; the clock that stamped it is another machine's.
std::string describe_run(const std::string& run_id, const core::rendezvous::State& state,
                         core::rendezvous::Stamp now);

core::rendezvous::Stamp stamp_now();

struct Closing {
  bool was_closed = false;        // Somebody had closed it before.
  core::rendezvous::State state;  // As it is now.
};

// Ends the run for all nodes, for good. Errors as look_at_run(), and Timeout if other writers were
// faster for as long as `limit`.
Result<Closing> close_run(const std::shared_ptr<Store>& store, const std::string& run_id,
                          Duration limit);

// "2 nodes (n1, n2), 1 waiting": who is on the lists, in the order of ranks.
std::string describe_nodes(const core::rendezvous::State& state);

// A name that came from another machine, fit for a terminal.
std::string plain(const std::string& name);

}  // namespace regroup::runtime
