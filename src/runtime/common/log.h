// Lines of our own, on standard error. Called from any thread.
//
// They are written by a thread of their own (console.h): a reader of standard error that has stopped
// holds up no server and no launcher. It misses lines in the end, and is told how many.
//
// `core` and `wire` never log: they return reasons, and their hosts log each once.
#pragma once

#include <functional>
#include <string>

#include "base/instant.h"

namespace regroup::runtime {

// "regroup: [TIME] info LINE", unless a sink takes it.
void log_info(const std::string& line);
void log_warning(const std::string& line);

// A line as it is, for commands that talk to people. Never to a sink.
void print_line(const std::string& line);

// Waits until all lines are written, but no longer than `limit`: before others write to the same
// place. At the end of the program, that is done by itself.
void flush_lines(Duration limit);

// While it lives, lines of the log go to `sink` instead, from any thread. One at a time.
class LogSink {
 public:
  explicit LogSink(std::function<void(const std::string&)> sink);
  ~LogSink();  // Waits for a line that is on its way.
  LogSink(const LogSink&) = delete;
  LogSink& operator=(const LogSink&) = delete;
};

}  // namespace regroup::runtime
