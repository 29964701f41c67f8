// Where a core file went.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace regroup::runtime {

// /proc/sys/kernel/core_pattern and core_uses_pid.
struct CorePattern {
  std::string text;
  bool uses_pid = false;
};

// The process that left the core.
struct CoreOf {
  pid_t pid = 0;
  std::optional<pid_t> kernel_pid;  // As the first pid namespace counts; often not known.
  int signal = 0;
  std::string directory;
  std::string program;
  std::string host;
  uid_t user = 0;
  gid_t group = 0;
};

struct CorePlace {
  std::string handler;   // The program that the kernel hands cores to; if any, the rest is empty.
  std::string expected;  // For people; with * for what only the kernel knows, such as the time.
  std::string glob;      // For glob(3): finds it whatever a worker calls its threads.
};

// As core(5) has it.
CorePlace core_place(const CorePattern& pattern, const CoreOf& of);

struct CoreFile {
  std::string path;
  std::uint64_t bytes = 0;
};

// The newest file that fits and is not older than that.
std::optional<CoreFile> find_core(const std::string& glob, std::int64_t not_before_wall_micros);

// Signals whose default action is a core dump.
bool makes_core(int signal);

}  // namespace regroup::runtime
