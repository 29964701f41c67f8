// Log lines of the running program, on standard error. Called from any thread.
//
// `core` and `wire` never log: they return reasons, and their hosts log each once.
#pragma once

#include <functional>
#include <string>

namespace regroup::runtime {

void log_info(const std::string& line);
void log_warning(const std::string& line);

// While it lives, lines go to `sink` instead, from any thread. One at a time.
class LogSink {
 public:
  explicit LogSink(std::function<void(const std::string&)> sink);
  ~LogSink();  // Waits for a line that is on its way.
  LogSink(const LogSink&) = delete;
  LogSink& operator=(const LogSink&) = delete;
};

}  // namespace regroup::runtime
