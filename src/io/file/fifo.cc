#include "io/file/fifo.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "io/loop/clock.h"
#include "io/loop/limits.h"
#include "io/loop/loop.h"
#include "io/loop/ready_set.h"

namespace regroup::io {
namespace {

tl::unexpected<Error> cannot_make(const std::string& path, const std::string& why,
                                  ErrorKind kind = ErrorKind::InvalidArgument) {
  return fail(kind, fmt::format("cannot make the pipe {}: {}", path, why));
}

// Whether the file at the path is a left-over that no process uses; if so, it is removed.
Result<void> make_way(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return {};
    return cannot_make(path, error_in_words(errno) + ". Choose another path.");
  }
  if (S_ISREG(info.st_mode) && info.st_size > 0)
    return cannot_make(path,
                       "a file with something in it is there. Remove it, or choose another "
                       "path.");
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode))
    return cannot_make(path,
                       "something is there that is neither a pipe nor an empty file. Choose "
                       "another path.");
  if (S_ISFIFO(info.st_mode)) {
    const Descriptor probe(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    if (probe)
      return cannot_make(path,
                         "a pipe is there, and somebody reads it: another launcher? Stop it, "
                         "or choose another path.");
    if (errno != ENXIO && errno != ENOENT)
      return cannot_make(path, "a pipe that is not ours is there: " + error_in_words(errno) +
                                   ". Choose another path.");
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return cannot_make(path, "what is left there cannot be removed: " + error_in_words(errno) +
                                 ". Choose another path.");
  return {};
}

// While it lives, a write to a pipe without readers fails with EPIPE, without a signal.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec none{};
    if (raised_ && !was_pending_) ::sigtimedwait(&sigpipe_, nullptr, &none);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;
  void raised() { raised_ = true; }

 private:
  sigset_t sigpipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
  bool raised_ = false;
};

}  // namespace

struct Fifo::Watch final : Watcher {
  Watch(ReadySet& ready_set, int descriptor, std::function<void()> callback)
      : set(ready_set), fd(descriptor), readable(std::move(callback)) {}
  ~Watch() override { set.remove(fd, *this); }
  void ready(std::uint32_t) override { readable(); }

  ReadySet& set;
  int fd;
  std::function<void()> readable;
};

Fifo::Fifo(std::string path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

Result<std::unique_ptr<Fifo>> Fifo::create(const std::string& path) {
  if (auto free = make_way(path); !free) return tl::unexpected(free.error());
  if (::mkfifo(path.c_str(), S_IRUSR | S_IWUSR) != 0) {
    const int error = errno;
    return cannot_make(
        path, error == EEXIST ? std::string("another process is making one there. Choose another "
                                            "path.")
                              : error_in_words(error) +
                                    ". Choose another path, in a directory that is there and can "
                                    "be written to.");
  }
  // Opened to read and to write: so the pipe always has a reader, opening does not wait for a
  // writer, and there is no end of file each time that the last writer closes it.
  Descriptor fd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  const int error = errno;
  std::unique_ptr<Fifo> fifo(new Fifo(path, std::move(fd)));
  struct stat info {};
  if (!fifo->fd_ || ::fstat(fifo->fd_.get(), &info) != 0 || !S_ISFIFO(info.st_mode)) {
    ::unlink(path.c_str());
    return cannot_make(path, fifo->fd_ ? "another process has replaced it" : error_in_words(error),
                       ErrorKind::Io);
  }
  fifo->device_ = info.st_dev;
  fifo->file_ = info.st_ino;
  // Refused beyond the user's share of memory for pipes. With a small one, more clients find it
  // full and have to try again.
  ::fcntl(fifo->fd_.get(), F_SETPIPE_SZ, static_cast<int>(kFifoBytes));
  const int got = ::fcntl(fifo->fd_.get(), F_GETPIPE_SZ);
  fifo->capacity_ = got > 0 ? static_cast<std::size_t>(got) : PIPE_BUF;
  return fifo;
}

Fifo::~Fifo() {
  watch_.reset();
  struct stat info {};
  if (::lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == file_)
    ::unlink(path_.c_str());
}

bool Fifo::watch(Loop& loop, std::function<void()> readable) {
  watch_.reset();
  auto watch = std::make_unique<Watch>(loop.sockets(), fd_.get(), std::move(readable));
  if (!loop.sockets().add(fd_.get(), EPOLLIN, *watch)) return false;
  watch_ = std::move(watch);
  return true;
}

std::size_t Fifo::read(std::span<char> room) const { return read_available(fd_.get(), room).bytes; }

Result<void> write_to_fifo(const std::string& path, std::string_view text, Duration patience) {
  const std::string what = "cannot write to the pipe " + path + ": ";
  if (text.size() > PIPE_BUF)
    return fail(ErrorKind::InvalidArgument,
                fmt::format("{}{} bytes are more than the {} that it takes at once.", what,
                            text.size(), PIPE_BUF));
  const Descriptor fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd && errno == ENXIO)
    return fail(ErrorKind::Connection, what + "nobody reads it. Its launcher has ended.");
  if (!fd)
    return fail(errno == ENOENT ? ErrorKind::Connection : ErrorKind::InvalidArgument,
                what + error_in_words(errno) + ".");
  if (kind_of(fd.get()) != FdKind::Stream)
    return fail(ErrorKind::InvalidArgument, what + "it is none.");
  NoSigpipe no_signal;
  const Instant until = deadline_after(patience);
  for (;;) {
    const ssize_t count = ::write(fd.get(), text.data(), text.size());
    if (count >= 0) return {};  // All of it was written: so short a text is never cut.
    const int error = errno;
    if (error == EINTR) continue;
    if (error == EPIPE) {
      no_signal.raised();
      return fail(ErrorKind::Connection, what + "nobody reads it any more.");
    }
    if (error != EAGAIN) return fail(ErrorKind::Io, what + error_in_words(error) + ".");
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now()).count();
    if (left <= 0)
      return fail(ErrorKind::Timeout, what + "it is full, and its launcher does not read it.");
    pollfd writable{.fd = fd.get(), .events = POLLOUT, .revents = 0};
    // A pipe counts as writable while any page of it is free, which need not be enough for us.
    if (::poll(&writable, 1, static_cast<int>(std::min<std::int64_t>(left, 1000))) > 0)
      ::poll(nullptr, 0, 1);
  }
}

}  // namespace regroup::io
