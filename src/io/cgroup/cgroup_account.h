// What a group says of its memory, whichever version its hierarchy has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace regroup::io {

// Counters of one group. Those that the kernel does not tell are empty.
struct MemoryAccount {
  std::string group;                       // Its path, for people.
  std::optional<std::uint64_t> oom_kills;  // Processes killed for memory, in it and (v2) below.
  std::optional<std::uint64_t> peak_bytes;
  std::optional<std::uint64_t> limit_bytes;  // Empty: no limit.
};

// Empty: this directory has no memory controller.
std::optional<MemoryAccount> read_memory_account(const std::string& directory);

// The group that this process is in or, if there is one, the nearest one above with a limit: in a
// container that is where its memory limit is. It needs no right to write. Empty: no memory
// controller. `proc` is another directory in tests only.
std::optional<MemoryAccount> own_memory_account(const std::string& proc = "/proc");

// Processes killed for memory on the whole machine since it started (/proc/vmstat), including those
// of other containers.
std::optional<std::uint64_t> machine_oom_kills(const std::string& proc = "/proc");

}  // namespace regroup::io
