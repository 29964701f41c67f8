// One stream of one worker: reads it, and passes its bytes on to the file, the console and the
// tail.
// Lives on the pump's thread, except tail().
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/instant.h"
#include "core/output/line_cutter.h"
#include "core/output/prefix.h"
#include "core/output/tail.h"
#include "io/file/pipe.h"
#include "io/loop/ready_set.h"
#include "runtime/output/log_pump_file.h"
#include "runtime/output/log_pump_screen.h"

namespace regroup::runtime {

// What a turn of the pump's loop provides, and what happened in it.
struct PumpTurn {
  Instant now{};
  std::string time;        // For people; empty where no prefix asks for it.
  std::span<char> buffer;  // To read into.
  std::uint64_t bytes = 0;
  std::uint64_t lost_bytes = 0;
  bool hurry = false;  // A pipe was filling up.
};

// Where the lines go that match a duplicate filter; shared by all workers.
struct FilteredCopy {
  PumpFile file;
  std::vector<std::string> filters;
  std::string pending;  // Of this turn.
};

struct StreamPlan {
  std::size_t number = 0;  // Of the source, for the screen.
  int local_rank = 0;
  io::Descriptor from;  // None: the stream does not come through us.
  std::size_t capacity = 0;
  std::optional<PumpFile> file = {};
  Screen* screen = nullptr;  // None: not shown.
  bool prefixed = false;
  core::output::Prefix prefix{"", {}};
  FilteredCopy* filtered = nullptr;
  bool keeps_tail = false;
  Duration bar_state = core::output::kBarState;
};

class PumpStream : public io::Watcher {
 public:
  PumpStream(StreamPlan plan, PumpTurn& turn);

  const StreamPlan& plan() const { return plan_; }
  bool is_open() const { return static_cast<bool>(plan_.from); }

  // Once, on the pump's thread, while it is open. False: the kernel refused.
  bool watch(io::ReadySet& set);
  void ready(std::uint32_t events) override;  // Reads once.
  void expire();                              // Shows what has waited long enough.
  std::optional<Instant> next_deadline() const { return cutter_.next_deadline(); }

  void read_rest();     // Reads everything that is there now.
  void finish_lines();  // Later bytes begin a new line.
  void close();

  std::string tail() const;  // From any thread.

 private:
  bool read_once();  // False: nothing more for now.
  void pass_on(std::string_view bytes);
  void show(const core::output::Cuts& cuts);
  void copy(const core::output::Cuts& cuts);

  StreamPlan plan_;
  PumpTurn& turn_;
  io::ReadySet* set_ = nullptr;
  core::output::LineCutter cutter_;
  core::output::LineCutter filter_cutter_;
  mutable std::mutex tail_mutex_;
  core::output::Tail tail_;
};

}  // namespace regroup::runtime
