#include "wire/text/traceback_lines.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/text_parts.h"

namespace regroup::wire {
namespace {

// ESC [ ... letter, which is all that Python uses.
std::string without_colours(std::string_view line) {
  std::string plain;
  while (!line.empty()) {
    const auto escape = std::min(line.find("\x1b["), line.size());
    plain += line.substr(0, escape);
    line.remove_prefix(escape);
    if (line.empty()) break;
    const auto last =
        std::find_if(line.begin() + 2, line.end(), [](char c) { return c >= '@' && c <= '~'; });
    line.remove_prefix(static_cast<std::size_t>(last - line.begin()) + (last != line.end()));
  }
  return plain;
}

bool take_rank(std::string& line) {
  constexpr std::string_view kStart = "[rank";
  if (!line.starts_with(kStart)) return false;
  std::size_t at = kStart.size();
  while (at < line.size() && is_digit(line[at])) ++at;
  // A log line of PyTorch's C++ has no space after the colon.
  if (at == kStart.size() || line.compare(at, 3, "]: ") != 0) return false;
  line.erase(0, at + 3);
  return true;
}

// "W1115 08:41:00 ...", "[W1115 08:41:00 ...", "[rank0]:[W1115 ...": how PyTorch and glog write.
bool is_native_log(std::string_view line) {
  if (line.starts_with("[rank")) line.remove_prefix(std::min(line.find(':') + 1, line.size()));
  if (line.starts_with('[')) line.remove_prefix(1);
  return line.size() > 5 && std::string_view("IWEFC").find(line[0]) != line.npos &&
         std::all_of(line.begin() + 1, line.begin() + 5, is_digit);
}

bool is_dated_log(std::string_view line) {
  if (line.starts_with('[')) line.remove_prefix(1);
  return line.size() > 10 && std::all_of(line.begin(), line.begin() + 4, is_digit) &&
         line[4] == '-' && is_digit(line[5]) && is_digit(line[6]) && line[7] == '-';
}

// "/a/b.py:12: UserWarning: ...", "sys:1: ResourceWarning: ..."
bool is_warning(std::string_view line) {
  const auto end = line.find("Warning: ");
  if (end == line.npos) return false;
  const auto name = line.rfind(' ', end);
  return name != line.npos && name >= 2 && line[name - 1] == ':' && is_digit(line[name - 2]);
}

}  // namespace

bool starts_with_one_of(std::string_view line, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return line.starts_with(start); });
}

bool is_indented(std::string_view line) { return line.starts_with(' ') || line.starts_with('\t'); }

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t") == line.npos; }

OutputLines split_output(std::string_view tail) {
  OutputLines lines;
  while (!tail.empty()) {
    const auto end = std::min(tail.find('\n'), tail.size());
    OutputLine line{without_colours(tail.substr(0, end))};
    tail.remove_prefix(std::min(end + 1, tail.size()));
    while (line.text.ends_with('\r')) line.text.pop_back();
    line.ranked = take_rank(line.text);
    lines.push_back(std::move(line));
  }
  return lines;
}

bool is_frame(std::string_view line) { return line.starts_with("  File \""); }

std::string_view exception_name(std::string_view line) {
  std::size_t at = 0;
  for (; at < line.size(); ++at) {
    const auto c = static_cast<unsigned char>(line[at]);
    if (std::isalnum(c) || c >= 0x80 || std::string_view("_.<>").find(line[at]) != line.npos)
      continue;
    break;
  }
  const std::string_view rest = line.substr(at);
  const bool named = at > 0 && !is_digit(line[0]) && line[0] != '.';
  return named && (rest.empty() || rest == ":" || rest.starts_with(": ")) ? line.substr(0, at)
                                                                          : std::string_view();
}

bool is_syntax_error(std::string_view line) {
  const std::string_view name = exception_name(line);
  return name == "SyntaxError" || name == "IndentationError" || name == "TabError";
}

bool is_chain_marker(std::string_view line) {
  return starts_with_one_of(line, {"During handling of the above exception",
                                   "The above exception was the direct cause of"});
}

bool says_harmless(std::string_view line) {
  return starts_with_one_of(
      line, {"Exception in thread ", "Exception ignored ", "--- Logging error ---",
             "Error in atexit._run_exitfuncs:", "Process SpawnProcess-", "Process ForkProcess-",
             "Process ForkServerProcess-", "Process Process-"});
}

bool is_of_others(std::string_view line) {
  return line == kTracebackHeader || line == kGroupHeader || is_chain_marker(line) ||
         says_harmless(line) || is_native_log(line) || is_dated_log(line) || is_warning(line) ||
         starts_with_one_of(
             line, {"INFO:", "DEBUG:", "WARNING:", "ERROR:", "CRITICAL:", kFatalError, "Thread 0x",
                    "Current thread 0x", "terminate called", "libc++abi: terminating",
                    "Segmentation fault", "Aborted"});
}

}  // namespace regroup::wire
