#include "io/file/pipe.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace regroup::io {
namespace {

tl::unexpected<Error> no_descriptor(const char* what) {
  const int error = errno;
  std::string message = fmt::format("cannot {}: {}", what, error_in_words(error));
  if (error == EMFILE) message += ". Raise the limit on open files (ulimit -n).";
  return fail(ErrorKind::Io, std::move(message));
}

// /dev/tty, whatever terminal that is.
bool is_terminal_of_process(dev_t device) { return device == ::makedev(5, 0); }

}  // namespace

std::string error_in_words(int error) {
  char buffer[128];
  return ::strerror_r(error, buffer, sizeof buffer);  // The GNU one; strerror is not for threads.
}

Result<Pipe> make_pipe(std::size_t capacity) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return no_descriptor("make a pipe");
  Pipe pipe{Descriptor(ends[0]), Descriptor(ends[1])};
  // Each end has its own flags, so the writer still blocks.
  if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return no_descriptor("set up a pipe");
  // Refused beyond the user's share of memory for pipes. A small pipe works as well, at more cost.
  ::fcntl(ends[0], F_SETPIPE_SZ, static_cast<int>(capacity));
  const int got = ::fcntl(ends[0], F_GETPIPE_SZ);
  pipe.capacity = got > 0 ? static_cast<std::size_t>(got) : 4096;
  return pipe;
}

Got read_available(int fd, std::span<char> room) {
  Got got;
  while (got.bytes < room.size()) {
    const ssize_t count = ::read(fd, room.data() + got.bytes, room.size() - got.bytes);
    if (count > 0) {
      got.bytes += static_cast<std::size_t>(count);
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    // A pseudo-terminal says EIO once the last slave is closed and its data is read; after any
    // other error nothing more can come either.
    got.end = true;
    break;
  }
  return got;
}

Put write_all(int fd, std::string_view bytes) {
  Put put;
  while (put.bytes < bytes.size()) {
    const ssize_t count = ::write(fd, bytes.data() + put.bytes, bytes.size() - put.bytes);
    if (count > 0) {
      put.bytes += static_cast<std::size_t>(count);
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {
      // A process that shares it with us made it non-blocking, and may have its reasons.
      pollfd writable{fd, POLLOUT, 0};
      ::poll(&writable, 1, -1);
      continue;
    }
    put.error = count < 0 ? errno : EIO;
    break;
  }
  return put;
}

Result<Descriptor> open_null() {
  Descriptor fd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!fd) return no_descriptor("open /dev/null");
  return fd;
}

Result<Descriptor> duplicate(int fd) {
  Descriptor copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy) return no_descriptor("duplicate a descriptor");
  return copy;
}

FdKind kind_of(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return FdKind::Closed;
  if (S_ISREG(info.st_mode)) return FdKind::File;
  if (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) return FdKind::Stream;
  return ::isatty(fd) ? FdKind::Terminal : FdKind::Device;
}

bool is_same_file(int fd, int other) {
  struct stat one {};
  struct stat two {};
  if (::fstat(fd, &one) != 0 || ::fstat(other, &two) != 0) return false;
  if (one.st_dev == two.st_dev && one.st_ino == two.st_ino) return true;
  // Numbers of terminals are unique only within one mount of devpts, so two other names are not
  // trusted to be one terminal.
  const bool has_alias =
      S_ISCHR(one.st_mode) && S_ISCHR(two.st_mode) &&
      (is_terminal_of_process(one.st_rdev) || is_terminal_of_process(two.st_rdev));
  unsigned int device = 0;
  unsigned int other_device = 0;
  return has_alias && ::ioctl(fd, TIOCGDEV, &device) == 0 &&
         ::ioctl(other, TIOCGDEV, &other_device) == 0 && device == other_device;
}

Result<WakeUp> WakeUp::open() {
  Descriptor fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return no_descriptor("make an event descriptor");
  return WakeUp(std::move(fd));
}

void WakeUp::ring() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto ignored = ::write(fd_.get(), &one, sizeof one);
}

void WakeUp::clear() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto ignored = ::read(fd_.get(), &count, sizeof count);
}

}  // namespace regroup::io
