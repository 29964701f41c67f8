// `regroup rendezvous join`: meets the other nodes, says what came of it, and leaves again.
#pragma once

#include "regroup/rendezvous.h"
#include "regroup/time.h"

namespace regroup::cli {

// `stay`: how long to remain a member. Returns the exit code; everything is said on standard output
// (the rounds) and standard error (all else). Its parameters' on_status and interrupted are set
// here.
int join_rendezvous(RendezvousParameters parameters, Duration stay);

}  // namespace regroup::cli
