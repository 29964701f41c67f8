// The timers of this node's workers: plays core/watchdog on a loop, for clients that write lines
// into a named pipe, PyTorch's FileTimerClient among them (docs/watchdog.md).
//
// Lives on the loop's thread. With nothing to do it does not wake up: it waits only for the pipe,
// the next deadline and the ends of processes that have timers.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/watchdog/wall_clock.h"
#include "core/watchdog/watchdog.h"
#include "io/file/fifo.h"
#include "io/loop/loop.h"
#include "io/process/process_watch.h"
#include "regroup/result.h"
#include "wire/text/timer_line.h"

namespace regroup::runtime {

// The time of a process is up.
struct Expiry {
  pid_t pid = 0;
  int signal = 0;
  std::string why;                  // "timer expired: scope step after 30 s".
  const io::ProcessWatch& process;  // Signals it, and no other process.
};

struct WatchdogEvents {
  // Whether we may end this process. Timers of others do not count.
  std::function<bool(pid_t)> belongs = {};
  // Whether the signal was sent. False: it was not, or it will be, and the end of the process tells
  // that it was.
  std::function<bool(const Expiry&)> expired = {};
  // It sent something: a sign of life. Called once for all that is read at a time.
  std::function<void(pid_t)> heard_from = {};
  // A worker's heartbeat has begun, or has another limit.
  std::function<void()> heartbeat = {};
  std::function<void(const std::string&)> note = {};  // Details, for people who want to know more.
  // Torchrun's words: a timer of a process of ours has expired, of several those up to the one that
  // decides; and the process was killed for it.
  std::function<void(const char* what, const core::watchdog::Timer&)> record = {};
  std::function<void(const std::string&)> warn = {};
};

class WatchdogHost {
 public:
  static Result<std::unique_ptr<WatchdogHost>> open(io::Loop& loop, const std::string& path,
                                                    WatchdogEvents events);
  WatchdogHost(const WatchdogHost&) = delete;
  WatchdogHost& operator=(const WatchdogHost&) = delete;

  const std::string& path() const { return fifo_->path(); }
  std::size_t timers() const { return watchdog_.size(); }

  // Reads what is in the pipe by now. Call it before you judge a worker to be late.
  void read_pipe();
  // The workers are over, and all timers with them.
  void forget_all();

 private:
  WatchdogHost(io::Loop& loop, std::unique_ptr<io::Fifo> fifo, WatchdogEvents events);
  void take(const wire::TimerLine& line, Instant now);
  bool know(pid_t pid);
  void ended(pid_t pid);
  void judge();
  void carry_out(const core::watchdog::Verdict& verdict);
  void record(const char* what, const core::watchdog::Timer& timer) const;
  void record_killed(pid_t pid);
  void arm();
  void complain(const std::string& line);

  io::Loop& loop_;
  std::unique_ptr<io::Fifo> fifo_;
  WatchdogEvents events_;
  core::watchdog::Watchdog watchdog_;
  core::watchdog::WallClock clock_;
  wire::TimerLineReader reader_;
  wire::TimerLines read_;
  std::vector<char> room_;
  std::unordered_map<pid_t, std::unique_ptr<io::ProcessWatch>> known_;
  // Timers for which processes are being ended.
  std::unordered_map<pid_t, core::watchdog::Timer> killing_;
  std::unordered_set<pid_t> heard_;  // Processes that sent something in the last read.
  pid_t last_stranger_ = 0;
  int complaints_ = 0;
  bool too_many_ = false;  // There are too many timers; said once.
  io::Timer deadline_;
};

// Where torchrun makes its pipe: watchdog_timer_<random> in the directory for temporary files.
std::string default_timer_path();

// "0.5 s", "30 s", "1m30s".
std::string limit_in_words(Duration limit);

}  // namespace regroup::runtime
