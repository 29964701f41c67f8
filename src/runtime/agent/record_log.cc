#include "runtime/agent/record_log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/text.h"
#include "io/loop/clock.h"
#include "runtime/common/limits.h"

namespace regroup::runtime {
namespace {

bool is_full(int error) { return error == EAGAIN; }

std::string lines_in_words(std::uint64_t lines) {
  return std::to_string(lines) + (lines == 1 ? " line" : " lines");
}

// Names of what we were started with. Its reader must be seen to go.
bool is_inherited(std::string_view path) {
  return path == "/dev/stdout" || path == "/dev/stderr" || path.starts_with("/dev/fd/") ||
         path.starts_with("/proc/self/fd/");
}

// What a pipe took and nobody is left to read: it is lost when we close our end, too.
std::uint64_t unread_bytes(int fd) {
  pollfd end{.fd = fd, .events = 0, .revents = 0};
  if (::poll(&end, 1, 0) != 1 || (end.revents & POLLERR) == 0) return 0;
  int bytes = 0;
  if (::ioctl(fd, FIONREAD, &bytes) != 0 || bytes < 0) return 0;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace

Result<RecordLog> RecordLog::open(const std::string& path) {
  struct stat info {};
  const bool pipe = ::stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode);
  constexpr int kHow = O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
  // While this end is open the pipe needs no other reader.
  io::Descriptor reader(pipe && !is_inherited(path) ? ::open(path.c_str(), O_RDONLY | kHow) : -1);
  io::Descriptor fd(::open(path.c_str(), (pipe ? 0 : O_CREAT) | O_WRONLY | O_APPEND | kHow, 0644));
  if (!fd) {
    const int error = errno;
    return fail(ErrorKind::Io,
                "cannot append to " + printable(path) + ": " +
                    (pipe && error == ENXIO ? "nobody reads it" : io::error_in_words(error)) +
                    (error == ENOENT ? ". Make its directory first" : ""));
  }
  return RecordLog(path, std::move(fd), std::move(reader));
}

int RecordLog::flush() {
  while (!waiting_.empty()) {
    // Line by line: each in one write, so that others who append cannot get between.
    const std::size_t length = waiting_.find('\n') + 1;
    const ssize_t written = ::write(fd_.get(), waiting_.data(), length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written == 0 ? ENOSPC : errno;
    waiting_.erase(0, static_cast<std::size_t>(written));
  }
  return 0;
}

std::optional<std::string> RecordLog::append(std::string_view line) {
  int error = 0;
  if (!waiting_.empty()) error = flush();
  if (waiting_.size() + line.size() + 1 > kRecordBacklog) {
    ++dropped_;
  } else {
    waiting_.append(line).push_back('\n');
    if (error == 0) error = flush();
  }
  // A full pipe may yet be read; a line is lost only when no more can wait.
  if (error == 0 || told_ || (is_full(error) && dropped_ == 0)) return std::nullopt;
  told_ = true;
  return is_full(error) ? printable(path_) + " is not read: lines are dropped from now on"
                        : "cannot write to " + printable(path_) + ": " + io::error_in_words(error);
}

std::optional<std::string> RecordLog::close() {
  if (!fd_) return std::nullopt;
  const Instant until = io::deadline_after(kRecordPatience);
  while (is_full(flush())) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - io::now()).count();
    pollfd full{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
    if (left <= 0 || ::poll(&full, 1, static_cast<int>(left)) == 0) break;
  }
  dropped_ += static_cast<std::uint64_t>(std::count(waiting_.begin(), waiting_.end(), '\n'));
  waiting_.clear();
  reader_.close();
  const std::uint64_t unread = unread_bytes(fd_.get());
  fd_.close();
  std::string loss;
  if (dropped_ > 0)
    loss = lines_in_words(dropped_) + " could not be written to " + printable(path_);
  if (unread > 0)
    loss += (loss.empty() ? "" : "; ") + std::string("nobody has read the last ") +
            size_in_words(unread) + " in " + printable(path_);
  if (loss.empty()) return std::nullopt;
  return loss;
}

}  // namespace regroup::runtime
