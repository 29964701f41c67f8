// What a worker's own output says about its end: the last Python traceback in the part of its
// standard error that was kept. For workers that write no error file. It is a guess by shape, for
// people: the output of several threads and processes may be mixed in it, so nothing is decided by
// it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace regroup::wire {

// How many lines of a message are kept after its first.
inline constexpr std::size_t kMessageLines = 20;
// How many lines of other writers may stand between two lines of one traceback.
inline constexpr std::size_t kForeignLines = 20;

struct Traceback {
  std::string text;       // Whole, with the exceptions that led to it, without a final line end.
  std::string last_line;  // "ValueError: boom": names the exception; of a chain, the final one.
  friend bool operator==(const Traceback&, const Traceback&) = default;
};

// `tail` may begin anywhere. Colours and PyTorch's "[rank3]: " in front of lines are taken off. The
// first of these that is there; if it is there several times, the last:
//
//   a traceback, an exception group, or a SyntaxError without a traceback;
//   faulthandler's "Fatal Python error", with the thread that failed;
//   C++'s "terminate called", which also comes before a "Fatal Python error: Aborted";
//   a traceback that did not end the process, as Python says: of a thread, a destructor, logging.
std::optional<Traceback> last_traceback(std::string_view tail);

}  // namespace regroup::wire
