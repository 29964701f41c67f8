// The lines of a worker's standard error, and what each looks like. For traceback.cc.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace regroup::wire {

inline constexpr std::string_view kTracebackHeader = "Traceback (most recent call last):";
inline constexpr std::string_view kGroupHeader =
    "  + Exception Group Traceback (most recent call last):";
inline constexpr std::string_view kFatalError = "Fatal Python error: ";

struct OutputLine {
  std::string text;     // Without colours and the rank.
  bool ranked = false;  // PyTorch had put "[rank3]: " in front of it.
};
using OutputLines = std::vector<OutputLine>;

OutputLines split_output(std::string_view tail);

bool starts_with_one_of(std::string_view line, std::initializer_list<std::string_view> starts);
bool is_indented(std::string_view line);
bool is_blank(std::string_view line);

//   File "train.py", line 3, in main
bool is_frame(std::string_view line);

// Of "ValueError: boom", "KeyboardInterrupt", "package.module.f.<locals>.Oops: it broke"; empty:
// the line is none of the kind.
std::string_view exception_name(std::string_view line);
// One that Python prints without a traceback.
bool is_syntax_error(std::string_view line);

// Between two exceptions, of which one led to the other.
bool is_chain_marker(std::string_view line);

// Python says so in the line above a traceback that does not end the process.
bool says_harmless(std::string_view line);

// What others write behind an exception: logs, warnings, the next traceback. No part of a message.
bool is_of_others(std::string_view line);

}  // namespace regroup::wire
