#include "io/file/log_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace regroup::io {
namespace {

Descriptor open_empty(const std::string& path) {
  return Descriptor(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644));
}

tl::unexpected<Error> log_error(const char* action, const std::string& path) {
  return fail(ErrorKind::Io,
              fmt::format("cannot {} the log file '{}': {}", action, path, error_in_words(errno)));
}

}  // namespace

Result<LogFile> LogFile::open(const std::string& path) {
  Descriptor fd = open_empty(path);
  if (!fd) return log_error("open", path);
  const bool regular = kind_of(fd.get()) == FdKind::File;
  return LogFile(path, std::move(fd), regular);
}

Result<void> LogFile::rotate(int keep) {
  if (keep <= 0) {
    if (::ftruncate(fd_.get(), 0) != 0) return log_error("empty", path_);
    return {};
  }
  const auto numbered = [&](int number) { return fmt::format("{}.{}", path_, number); };
  for (int number = keep - 1; number >= 1; --number)
    if (std::rename(numbered(number).c_str(), numbered(number + 1).c_str()) != 0 && errno != ENOENT)
      return log_error("rename", numbered(number));
  if (std::rename(path_.c_str(), numbered(1).c_str()) != 0 && errno != ENOENT)
    return log_error("rename", path_);
  Descriptor fresh = open_empty(path_);
  if (!fresh) return log_error("open", path_);
  fd_ = std::move(fresh);
  return {};
}

std::string read_end(const std::string& path, std::size_t most) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  const auto size = static_cast<std::size_t>(info.st_size);
  std::string end(std::min(size, most), '\0');
  const ssize_t got =
      ::pread(fd.get(), end.data(), end.size(), static_cast<off_t>(size - end.size()));
  end.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return end;
}

}  // namespace regroup::io
