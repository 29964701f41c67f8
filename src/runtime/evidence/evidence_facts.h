// What was found out about a worker's end, and what it means. Gathering is in evidence.cc; all
// judging is here, and pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/cgroup/cgroup_account.h"
#include "io/process/process.h"
#include "runtime/evidence/evidence_core.h"
#include "runtime/evidence/evidence_verdict.h"

namespace regroup::runtime {

struct Filled {
  std::uint64_t used = 0;
  std::uint64_t total = 0;
};

struct Facts {
  pid_t pid = 0;
  io::ProcessExit exit;
  bool signalled_by_us = false;

  std::optional<io::MemoryAccount> leaf;  // Only where it counts memory.
  std::optional<io::MemoryAccount> own;   // Now.
  // Since the start. Empty: unknown.
  std::optional<std::uint64_t> own_kills;
  std::optional<std::uint64_t> machine_kills;
  std::string kernel_log;  // A record saying that the kernel killed this pid for memory.

  std::optional<Filled> shared_memory;  // /dev/shm, now.
  CorePlace core;
  std::optional<CoreFile> core_file;
  bool core_limit_is_zero = false;
  bool pids_are_the_kernels = true;
  std::string full_log;  // The log whose disk is full.
};

Evidence judge(const Facts& facts);

// Empty if either is, or if the counter went back: then it is another counter.
std::optional<std::uint64_t> grown_by(std::optional<std::uint64_t> before,
                                      std::optional<std::uint64_t> after);

}  // namespace regroup::runtime
