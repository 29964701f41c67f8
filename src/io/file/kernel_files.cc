#include "io/file/kernel_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/text_parts.h"
#include "io/loop/descriptor.h"

namespace regroup::io {
namespace {

std::string_view without_line_end(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::optional<std::string> read_text(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return {};
  std::string text;
  char part[4096];
  ssize_t got = 0;
  do {
    got = ::read(fd.get(), part, sizeof part);
    if (got > 0) text.append(part, static_cast<std::size_t>(got));
  } while (got > 0 || (got < 0 && errno == EINTR));
  if (got < 0) return {};
  return text;
}

int write_text(const std::string& path, std::string_view text) {
  const Descriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return errno;
  return ::write(fd.get(), text.data(), text.size()) < 0 ? errno : 0;
}

std::optional<std::uint64_t> number_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = take_until(text, '\n');
    if (take_until(line, ' ') == key) return parse_number(line);
  }
  return {};
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  return to_number<std::uint64_t>(without_line_end(text));
}

bool has_word(std::string_view text, std::string_view word) {
  while (!text.empty()) {
    std::string_view line = take_until(text, '\n');
    while (!line.empty())
      if (take_until(line, ' ') == word) return true;
  }
  return false;
}

}  // namespace regroup::io
