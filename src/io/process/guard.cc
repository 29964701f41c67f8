#include "io/process/guard.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "io/loop/clock.h"
#include "io/process/guard_child.h"

namespace regroup::io {
namespace {

// Within this time a running guard reads everything and ends. One that was stopped (SIGSTOP) does
// neither.
constexpr int kPatienceMs = 2000;

bool wait_until(int fd, short events) {
  pollfd one{.fd = fd, .events = events, .revents = 0};
  int ready;
  do ready = ::poll(&one, 1, kPatienceMs);
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

// Nobody else's, and nobody can guess it.
std::string make_mark() {
  std::array<std::uint64_t, 2> random{};
  if (::getrandom(random.data(), sizeof random, GRND_NONBLOCK) != sizeof random)
    random = {static_cast<std::uint64_t>(utc_micros()), static_cast<std::uint64_t>(::getpid())};
  return fmt::format("{:016x}{:016x}", random[0], random[1]);
}

}  // namespace

Result<std::unique_ptr<Guard>> Guard::start() {
  const auto failed = [](const char* what) {
    return fail(ErrorKind::Io,
                fmt::format("cannot start the guard that cleans up after us: {}: {}. Check ulimit "
                            "-n, ulimit -u and pids.max of the container.",
                            what, std::strerror(errno)));
  };
  // Packets: a line arrives whole or not at all.
  std::array<int, 2> ends;
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return failed("socketpair");
  Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  const Descriptor self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  std::string mark = make_mark();
  const std::string entry = fmt::format("{}={}", kMarkName, mark);

  // No signal ends the guard but SIGKILL, and no handler of ours runs in it.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ours.close();
    run_guard(theirs.get(), self.get(), entry);
  }
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid > 0) return std::unique_ptr<Guard>(new Guard(pid, std::move(ours), std::move(mark)));
  errno = error;
  return failed("fork");
}

Guard::Guard(pid_t pid, Descriptor socket, std::string mark)
    : pid_(pid), socket_(std::move(socket)), mark_(std::move(mark)), owner_(::getpid()) {}

Guard::~Guard() {
  if (owner_ != ::getpid()) return;
  tell("bye");
  // When the guard is gone its end is closed.
  bool gone = wait_until(socket_.get(), POLLRDHUP);
  if (!gone) {
    ::kill(pid_, SIGKILL);
    gone = wait_until(socket_.get(), POLLRDHUP);
  }
  socket_.close();
  while (gone && ::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

pid_t Guard::pid() const { return pid_; }
void Guard::watch_session(pid_t leader) { tell(fmt::format("+{}", leader)); }
void Guard::forget_session(pid_t leader) { tell(fmt::format("-{}", leader)); }
void Guard::watch_cgroup(const std::string& directory) { tell("c" + directory); }
void Guard::watch_pipe(const std::string& path) { tell("p" + path); }
void Guard::forget_mark() { tell("leave"); }

void Guard::tell(const std::string& line) {
  if (owner_ != ::getpid()) return;
  for (;;) {
    if (::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return;  // It was killed.
    if (wait_until(socket_.get(), POLLOUT)) continue;
    // It is stopped, perhaps by a debugger. If it woke later it would act on what it knew long ago,
    // and kill by numbers that are reused by then: no guard is better.
    ::kill(pid_, SIGKILL);
    return;
  }
}

}  // namespace regroup::io
