// Moves processes into control groups while they already run. For this room alone.
#pragma once

#include <sys/types.h>

#include <future>
#include <vector>

#include "io/file/pipe.h"

namespace regroup::io {

struct LateJoin {
  pid_t pid = -1;
  Descriptor procs;    // The cgroup.procs file to be written into.
  Descriptor born_in;  // The cgroup v2 directory that all of its descendants are born in.
};

// Ends when all processes are moved, with those that they have started meanwhile, or have ended.
// Until then their pids must stay theirs: none of them may be reaped. A process that the kernel
// refuses to move stays where it is.
//
// On a thread of its own, because each move into a group of cgroup v1 waits until no processor can
// be in the middle of a fork or an exit: some ten milliseconds.
std::shared_future<void> join_late(std::vector<LateJoin> joins);

}  // namespace regroup::io
