// One log file that the pump writes: keeps to its largest size, and survives a full disk.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/output/rotation.h"
#include "io/file/log_file.h"

namespace regroup::runtime {

struct LogFileLimits {
  std::uint64_t max_bytes = 0;  // 0: no limit.
  int keep = 3;
};

// Lives on the pump's thread.
class PumpFile {
 public:
  PumpFile(io::LogFile file, LogFileLimits limits, std::function<void(const std::string&)> warn)
      : file_(std::move(file)), limits_(limits), warn_(std::move(warn)) {}

  // Bytes that cannot be written are lost and counted, and their place is marked once writing works
  // again. We never wait for space on a disk: a worker that blocks on its output holds up all
  // others.
  void append(std::string_view bytes);

  std::uint64_t lost_bytes() const { return lost_; }

 private:
  bool mark_loss();
  bool write(std::string_view bytes);
  void warn_once(const std::string& message);

  io::LogFile file_;
  LogFileLimits limits_;
  std::function<void(const std::string&)> warn_;
  core::output::FileEnd end_;
  std::uint64_t lost_ = 0;
  std::uint64_t unmarked_ = 0;  // Of those, since the last mark.
  int error_ = 0;               // Why.
  bool warned_ = false;
};

}  // namespace regroup::runtime
