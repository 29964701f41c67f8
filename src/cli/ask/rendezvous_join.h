// `regroup rendezvous join`: meets the other nodes, prints the result, and leaves again.
#pragma once

#include "regroup/rendezvous.h"
#include "regroup/time.h"

namespace regroup::cli {

// `stay`: how long to remain a member. Returns the exit code; prints the rounds on standard output
// and everything else on standard error. Its parameters' on_status and interrupted are set here.
int join_rendezvous(RendezvousParameters parameters, Duration stay);

}  // namespace regroup::cli
