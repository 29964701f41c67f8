// Stacks of Python threads, as `py-spy dump` and faulthandler print them, and what they say in a
// few words about where a worker is. What follows from it is for core/hang.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/hang/blame.h"

namespace regroup::wire {

// Beyond these, the rest of a dump is ignored.
inline constexpr std::size_t kThreadsOfDump = 1000;
inline constexpr std::size_t kFramesOfThread = 1000;

struct StackFrame {
  std::string function;
  std::string file;  // As printed: the whole path, or its last part.
  int line = 0;
  friend bool operator==(const StackFrame&, const StackFrame&) = default;
};

struct ThreadStack {
  std::string name;                // "MainThread"; faulthandler may have none.
  bool current = false;            // faulthandler's: the thread that got the signal.
  std::vector<StackFrame> frames;  // Innermost first.
  friend bool operator==(const ThreadStack&, const ThreadStack&) = default;
};

// Lines that belong to neither form are skipped, so a dump may stand in the middle of other output.
std::vector<ThreadStack> parse_stack_dump(std::string_view text);

// The thread that runs the program. Null: there is none.
const ThreadStack* main_thread(const std::vector<ThreadStack>& threads);

using core::hang::RankAt;
using core::hang::Whereabouts;

// What the kernel shows of a worker's main thread.
struct KernelView {
  std::string_view system_call = {};   // "read", "futex", ...; empty: the state is used.
  char state = '?';                    // 'R', 'S', ...
  std::string_view wait_channel = {};  // Where in the kernel it sleeps; may be empty.
};
// `stack` may be null.
Whereabouts whereabouts(const ThreadStack* stack, const KernelView& kernel);

// For the other nodes of a run: a line for each rank, and behind it what else is known of it, a line
// each. Lines of another form are skipped, as earlier versions skip the latter.
std::string encode_ranks(const std::vector<RankAt>& ranks);
std::vector<RankAt> decode_ranks(std::string_view text);

// One frame a line, innermost first: "loader.py:12 in fetch".
std::string stack_lines(const ThreadStack& stack);

}  // namespace regroup::wire
