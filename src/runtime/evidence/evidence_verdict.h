// The verdict on a worker's end, made of all that was found out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/cgroup/cgroup_account.h"

namespace regroup::runtime {

enum class OutOfMemory {
  NoSign,  // Nothing says so.
  Likely,  // Killed by SIGKILL, not by us, and the kernel killed some process for memory meanwhile.
  Proven,  // The kernel counted a kill in this worker's own group, or its log names the pid.
};

struct Evidence {
  OutOfMemory out_of_memory = OutOfMemory::NoSign;
  std::optional<io::MemoryAccount> memory;  // Of the worker's group, else of ours.
  std::int64_t peak_rss_bytes = 0;
  // Where a core was written, or which program got it; may be empty.
  std::string core_file;
  std::vector<std::string> lines;  // For people, most telling first, without a final dot.
};

}  // namespace regroup::runtime
