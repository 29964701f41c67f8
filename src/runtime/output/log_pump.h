// Carries the output of workers to files and to the console, on a thread of its own.
//
// Output that we do not need to see goes straight to its file, or to our own descriptor; all else
// comes through pipes (pseudo-terminals where our console is one, so that workers still see a
// terminal). Where stdout and stderr of a worker go to the same place they share one pipe, so that
// what was written first is seen first. Files get every byte as it comes, and slow files slow the worker. The console gets
// whole lines, from a second thread: when its reader stops, up to kConsoleBacklog bytes wait, then
// lines are dropped from the console alone, and counted.
//
//   auto pump = LogPump::start(options);
//   auto streams = pump->open(routes, names);       // Before the workers are started.
//   spec.output = (*streams)[0].out; spec.errors = (*streams)[0].err;
//   ... start them ...
//   pump->started();                                 // Closes the workers' ends on our side.
//   pump->drain(deadline, [] { ... });               // All of them have ended.
//   pump->tail(0).text                               // The last 64 KiB of rank 0's stderr.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/instant.h"
#include "core/output/live_line.h"
#include "regroup/logs.h"
#include "runtime/output/log_pump_options.h"

namespace regroup::runtime {

class LogPump {
 public:
  static Result<std::unique_ptr<LogPump>> start(LogPumpOptions options);
  ~LogPump();  // If the console does not read, it waits only for a moment.
  LogPump(const LogPump&) = delete;
  LogPump& operator=(const LogPump&) = delete;

  // Opens files and pipes for one start of a group; what an earlier one left is closed first, so
  // drain that before. All or nothing.
  Result<std::vector<WorkerStreams>> open(const LogRoutes& routes,
                                          const std::vector<WorkerName>& names);
  // The workers have their ends of the pipes; closes ours of those.
  void started();

  // Reads until every pipe is at its end, or until `deadline` if a process keeps one open, writes
  // everything to the files and hands it to the console, then calls `done` on the pump's thread
  // with the local ranks whose streams were still open.
  void drain(Instant deadline, std::function<void(std::vector<int> still_open)> done);

  // Waits until what the workers have written is read, but no longer than `limit`. The pump rests
  // between two looks, and a worker's last words come just before its end.
  void catch_up(Duration limit);

  // The end of a worker's stderr, at most core::output::kTailBytes, from a line start. Complete
  // after drain(), and as far as catch_up() has come before that.
  // It also works where the worker wrote straight to a file. Where stdout and stderr go to the same
  // place they are one stream, and `of_both` says so.
  struct TailOf {
    std::string text;
    bool of_both = false;
  };
  TailOf tail(int local_rank) const;

  // Our terminal has another size: those of the workers get it too.
  void copy_window_size();

  // A line of our own, between lines of the workers. For the console of the errors alone.
  void print(const std::string& line);

  // A line that counts seconds at the bottom of the console of the errors, if that is a terminal;
  // it replaces the one before, and stays until hide_live(). It never mixes with other output: that
  // wipes it out first, and it is drawn again below. Without such a line no thread wakes up for it.
  void show_live(core::output::LiveLine line);
  void hide_live();

  // Waits until the console has taken everything, or until `limit` is over; false: not everything.
  bool flush_console(Duration limit);

  struct Counters {
    std::uint64_t bytes = 0;          // That came through pipes.
    std::uint64_t lines = 0;          // Handed to the console.
    std::uint64_t dropped_lines = 0;  // Not shown, because the console did not read.
    std::uint64_t lost_bytes = 0;     // Not written to files, because the disk was full.
  };
  Counters counters() const;

 private:
  struct Impl;
  explicit LogPump(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace regroup::runtime
