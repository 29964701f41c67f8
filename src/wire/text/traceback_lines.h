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

// The name in "ValueError: boom", "KeyboardInterrupt", "package.module.f.<locals>.Oops: it broke";
// empty: the line names no exception.
std::string_view exception_name(std::string_view line);
// An exception that Python prints without a traceback.
bool is_syntax_error(std::string_view line);

// The line between two exceptions, of which one led to the other.
bool is_chain_marker(std::string_view line);

// The line above a traceback by which Python says that the process does not end because of it.
bool says_harmless(std::string_view line);

// What others write after an exception: logs, warnings, the next traceback. Not part of a message.
bool is_of_others(std::string_view line);

}  // namespace regroup::wire
