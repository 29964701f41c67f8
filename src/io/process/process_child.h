// What happens between fork and exec. For this room alone.
//
// The child has one thread and a copy of memory in which other threads were stopped anywhere, with
// locks held: it may neither allocate nor call anything that might. Everything it needs is made
// before the fork.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "io/process/process.h"

namespace regroup::io {

enum class StartStep : std::int32_t {
  Fork,
  Session,
  ParentDeath,
  Join,
  Descriptors,
  Directory,
  Affinity,
  Memory,
  Execute,
};

// What a child says when it cannot go on. Written to a pipe that all children share, in one piece.
struct StartFailure {
  std::int32_t index = 0;  // Of the spec.
  StartStep step{};
  std::int32_t error = 0;      // errno.
  std::int32_t candidate = 0;  // Of Plan::candidates, for Execute.
};

struct Plan {
  const ProcessSpec* spec = nullptr;
  std::int32_t index = 0;
  std::vector<std::string> candidates;
  std::vector<char*> argv;  // Into `spec`, and a null behind them; so the next.
  std::vector<char*> environment;
  std::vector<char*> shell_argv;    // The shell, room for the script, its arguments.
  std::vector<unsigned long> cpus;  // One bit each.
  std::vector<unsigned long> nodes;
};

inline bool joins_later(const ProcessSpec& spec, const GroupToJoin& group) {
  return group.later && spec.cgroup >= 0;
}

Plan make_plan(const ProcessSpec& spec, std::int32_t index);

struct ChildSurroundings {
  pid_t parent = 0;
  int report = -1;                // Takes a StartFailure. Closed by exec.
  bool join_cgroup = false;       // It was not born in spec.cgroup, and moves there itself.
  const rlimit* files = nullptr;  // The limit on open files to go back to; null: as it is.
};

// Expects all signals to be blocked.
[[noreturn]] void run_child(Plan& plan, const ChildSurroundings& around);

}  // namespace regroup::io
