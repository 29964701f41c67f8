#include "io/process/process_watch.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "io/loop/loop.h"
#include "io/loop/ready_set.h"

namespace regroup::io {

struct ProcessWatch::Watch final : Watcher {
  Watch(ReadySet& ready_set, int descriptor, std::function<void()> callback)
      : set(&ready_set), fd(descriptor), ended(std::move(callback)) {}
  ~Watch() override { stop(); }

  void stop() {
    if (set != nullptr) std::exchange(set, nullptr)->remove(fd, *this);
  }

  void ready(std::uint32_t) override {
    stop();  // The descriptor stays readable for ever.
    // The callback may destroy this watcher, so it runs from the stack.
    const auto callback = std::move(ended);
    callback();
  }

  ReadySet* set;
  int fd;
  std::function<void()> ended;
};

ProcessWatch::ProcessWatch(pid_t pid, OwnedFd fd) : pid_(pid), fd_(std::move(fd)) {}
ProcessWatch::~ProcessWatch() { watch_.reset(); }

Result<std::unique_ptr<ProcessWatch>> ProcessWatch::open(pid_t pid) {
  OwnedFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (fd) return std::unique_ptr<ProcessWatch>(new ProcessWatch(pid, std::move(fd)));
  // EINVAL: a thread's number, which is no process.
  if (errno == ESRCH || errno == EINVAL) return nullptr;
  std::string message =
      "cannot watch process " + std::to_string(pid) + ": " + error_in_words(errno);
  if (errno == EMFILE) message += ". Raise the limit on open files (ulimit -n).";
  return fail(ErrorKind::Io, std::move(message));
}

bool ProcessWatch::watch(Loop& loop, std::function<void()> ended) {
  watch_.reset();
  auto watch = std::make_unique<Watch>(loop.sockets(), fd_.get(), std::move(ended));
  if (!loop.sockets().add(fd_.get(), EPOLLIN, *watch)) return false;
  watch_ = std::move(watch);
  return true;
}

int ProcessWatch::signal(int number) const {
  return ::syscall(SYS_pidfd_send_signal, fd_.get(), number, nullptr, 0) == 0 ? 0 : errno;
}

bool belongs_to(pid_t pid, const Roots& roots) {
  std::vector<ProcessInfo> line;
  const auto known = [&](pid_t one) {
    return std::any_of(line.begin(), line.end(),
                       [&](const ProcessInfo& process) { return process.pid == one; });
  };
  // Up to init; a circle is possible, because numbers pass from one to another while we read.
  for (pid_t next = pid; next > 0 && !known(next);) {
    auto process = find_process(next);
    if (!process) break;
    next = process->parent;
    line.push_back(std::move(*process));
  }
  const auto meant = belonging_to(line, roots);
  return std::any_of(meant.begin(), meant.end(),
                     [&](const ProcessInfo& process) { return process.pid == pid; });
}

}  // namespace regroup::io
