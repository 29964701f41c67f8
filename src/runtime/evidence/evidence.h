// What there is to know about a worker's end, beside its exit status. Taken when it has ended,
// before anything is cleaned away. It never claims an out-of-memory kill that nothing shows.
//
//   const Before before = look_before_start();    // Once, just before the workers start.
//   ...
//   for (auto& line : take_evidence(ended, before, leaf).lines) print(line);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "io/cgroup/cgroup.h"
#include "io/process/process.h"
#include "runtime/evidence/evidence_verdict.h"

namespace regroup::runtime {

class KernelLog;

// Taken once when the workers are started, to compare with. Copies share the place in the kernel's
// log: use them on one thread.
struct Before {
  std::optional<io::MemoryAccount> own;
  std::optional<std::uint64_t> machine_oom_kills;
  std::int64_t wall_micros = 0;           // A core file is not older.
  std::shared_ptr<KernelLog> kernel_log;  // Empty: it is not readable here.
};
Before look_before_start();

struct Ended {
  pid_t pid = 0;
  io::ProcessExit exit;
  bool signalled_by_us = false;
  std::string directory;  // The worker's working directory; empty: ours.
  std::string program;    // argv[0]'s last part, for core patterns.
  std::string log_file;   // Of its stderr, to see whether that disk is full; may be empty.
};

// The leaf, if there is one, held this worker alone and was new for it.
Evidence take_evidence(const Ended& ended, const Before& before, const io::CgroupLeaf* leaf);

}  // namespace regroup::runtime
