// The pump's thread: sleeps until a stream has something, and gives every stream a turn.
//
// After a turn it rests for a few milliseconds before it looks at the streams again, so that busy
// workers are read in large pieces: a wake-up for every line would cost more than the lines.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/output/live_line.h"
#include "io/file/pipe.h"
#include "io/loop/ready_set.h"
#include "runtime/output/log_pump_group.h"

namespace regroup::runtime {

class PumpLoop {
 public:
  using Warn = std::function<void(const std::string&)>;
  // `screens` outlive it.
  static Result<std::unique_ptr<PumpLoop>> start(std::vector<Screen*> screens, Warn warn);
  ~PumpLoop();  // Takes what is there now, and ends.

  PumpTurn& turn() { return turn_; }  // For open_group; belongs to the thread.

  // From any thread; they happen in the order of the calls.
  void adopt(std::shared_ptr<PumpGroup> group);  // Instead of the one before.
  void drain(Instant deadline, std::function<void(std::vector<int>)> done);
  void say(Screen& screen, std::string line);
  void show_live(Screen& screen, core::output::LiveLine line);
  void hide_live();
  // Called once every stream that has something has had a turn.
  void catch_up(std::function<void()> done);
  // Called once everything before it is with the consoles.
  void after_this(std::function<void()> task);

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t lost_bytes() const { return lost_bytes_; }

 private:
  struct Drain {
    Instant deadline;
    std::function<void(std::vector<int>)> done;
  };

  struct Live {
    Screen* screen;
    core::output::LiveLine line;
    std::string shown = {};
    Instant drawn{};      // When it was last drawn, or tried.
    bool changed = true;  // Since then.
  };

  PumpLoop(std::vector<Screen*> screens, Warn warn, io::WakeUp wake_up);
  void post(std::function<void()> task);
  void run();
  void sleep();
  void take_turn();
  void draw_live();
  std::optional<Instant> next_drawing() const;
  void hand_over();
  void finish_drains();
  void release_group();
  std::optional<Instant> next_deadline() const;

  std::vector<Screen*> screens_;
  Warn warn_;
  io::WakeUp wake_up_;
  io::ReadySet set_;
  std::vector<char> buffer_;
  PumpTurn turn_;
  std::shared_ptr<PumpGroup> group_;
  bool prefix_has_time_ = false;
  std::vector<Drain> drains_;
  std::vector<std::function<void()>> catching_up_;
  std::optional<Live> live_;
  Instant resting_until_{};
  bool running_ = true;

  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<std::uint64_t> lost_bytes_ = 0;
  std::thread thread_;
};

}  // namespace regroup::runtime
