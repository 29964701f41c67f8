// What core/hang needs to know of workers, read from /proc: of each and of every process it
// started.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "core/hang/hang.h"
#include "io/process/process_table.h"

namespace regroup::runtime {

struct WatchedWorker {
  pid_t pid = 0;  // 0: it has ended.
  std::uint64_t requests = 0;
};

// The worker itself: `pid`, or its child, if it is only a shell that waits for its one child.
pid_t behind_shells(const std::vector<io::ProcessInfo>& everybody, pid_t pid);

std::vector<std::optional<core::hang::Sample>> look_at_workers(
    const std::vector<WatchedWorker>& workers);

}  // namespace regroup::runtime
