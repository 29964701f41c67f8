// Which processes the kernel killed for memory, by its own log.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "io/loop/descriptor.h"

namespace regroup::runtime {

struct OomRecord {
  pid_t pid = 0;
  std::string text;  // What the record says, without its header.
};

// One record of /dev/kmsg. Empty: it is not about such a kill, or a program wrote it, not the
// kernel.
std::optional<OomRecord> parse_oom_record(std::string_view record);

// What has come into the log since it was opened: a position in the log is exact, while its time
// stamps drift away from every other clock. Lives on one thread.
class KernelLog {
 public:
  // Empty: it may not be read, or its pids are not ours (in a pid namespace).
  static std::shared_ptr<KernelLog> open_at_end();
  // Each read gives one record.
  explicit KernelLog(io::Descriptor records) : records_(std::move(records)) {}

  // What the log says of the kill, or nothing. Reads on, up to kReadAtOnce.
  std::string killed_for_memory(pid_t pid);

 private:
  void read_on();
  io::Descriptor records_;
  std::map<pid_t, std::string> killed_;
};

// A flood in the log must not hold up the report; the rest is read by the next call.
inline constexpr std::size_t kReadAtOnce = 1024 * 1024;
// Kills remembered; further ones are not.
inline constexpr std::size_t kKillsRemembered = 4096;

}  // namespace regroup::runtime
