// What workers write into the timer pipe: a JSON object a line, as PyTorch's FileTimerClient does.
//
//   {"version": 1, "pid": 8515, "scope_id": "step", "expiration_time": 1700000000.25, "signal": 9}
//   {"version": 1, "pid": 8515, "scope_id": "step", "expiration_time": -1, "signal": 0}
//
// The first acquires a timer, the second releases it. Other fields are ignored, except for one of
// ours: "heartbeat" says that this worker's heartbeat has begun, or has another limit; to PyTorch's
// server such a line is the release of a timer that is not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "regroup/result.h"

namespace regroup::wire {

struct TimerLine {
  std::int64_t pid = 0;
  std::string scope;
  double expiration = 0;  // Seconds since 1970; infinite or NaN: never; negative: a release.
  int signal = 0;
  bool heartbeat = false;
  bool is_release() const { return expiration < 0; }
  friend bool operator==(const TimerLine&, const TimerLine&) = default;
};

// A pipe takes this much in one piece, without mixing it with what others write (PIPE_BUF).
inline constexpr std::size_t kWholeWrite = 4096;
// A longer line was not written by a client, and is thrown away.
inline constexpr std::size_t kLongestTimerLine = 64 * 1024;

// With its newline. Bytes of the scope that are not UTF-8 are replaced.
std::string encode_timer_line(const TimerLine& line);

struct TimerLines {
  std::vector<TimerLine> lines;
  // One for each broken line: what is wrong with it, and what it looks like.
  std::vector<std::string> complaints;
};

// Cuts what comes through the pipe into lines. Keeps the beginning of a line whose end has not come
// yet. A broken line does not take its neighbours with it, not even one on the same line: a writer
// that died in the middle of its line left no newline.
class TimerLineReader {
 public:
  // The same lines, however the bytes are cut.
  void read(std::string_view bytes, TimerLines& into);

 private:
  void read_line(std::string_view line, TimerLines& into);

  std::string beginning_;
  bool skipping_ = false;  // The rest of a line that was too long.
};

}  // namespace regroup::wire
