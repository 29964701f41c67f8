#include "cli/flags/help_columns.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace regroup::cli {
namespace {

constexpr std::size_t kMost = 100;  // Wide enough for a description, and still easy to read.
constexpr std::size_t kLeast = 60;  // Narrower, nothing beside the names of flags would fit.
constexpr std::size_t kNames = 46;  // Descriptions begin within these columns.

// Where the text of the line begins: after the name of a flag or command and the gap behind it, if
// there is one, else after the blanks in front.
std::size_t indent_of(std::string_view line) {
  const std::size_t front = std::min(line.find_first_not_of(' '), line.size());
  if (front == 0) return 0;
  const std::size_t gap = line.find("  ", front);
  if (gap > kNames) return front;  // Or there is none: npos is the largest.
  const std::size_t text = line.find_first_not_of(' ', gap);
  return text > kNames ? front : text;
}

void add_line(std::string& page, std::string_view line, std::size_t columns) {
  const std::size_t indent = indent_of(line);
  std::size_t column = 0;  // Of where the rest of the line will stand.
  std::size_t first = indent;
  while (column + line.size() > columns) {
    std::size_t cut = line.rfind(' ', columns - column);
    if (cut == std::string_view::npos || cut <= first) cut = line.find(' ', first);
    if (cut == std::string_view::npos) break;
    page.append(line.substr(0, cut)).append("\n").append(indent, ' ');
    line.remove_prefix(std::min(line.find_first_not_of(' ', cut), line.size()));
    column = indent;
    first = 0;
  }
  page.append(line);
}

}  // namespace

std::string in_columns(std::string_view text, std::size_t columns) {
  std::string page;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    add_line(page, text.substr(0, end), columns);
    if (end < text.size()) page += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return page;
}

std::size_t help_columns() {
  winsize window{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return kMost;
  return std::clamp<std::size_t>(window.ws_col, kLeast, kMost);
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace regroup::cli
