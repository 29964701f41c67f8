#include "io/process/process_watch.h"

#include <fmt/core.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "io/file/pipe.h"
#include "io/process/end_watch.h"

namespace regroup::io {

ProcessWatch::ProcessWatch(pid_t pid, Descriptor fd) : pid_(pid), fd_(std::move(fd)) {}
ProcessWatch::~ProcessWatch() = default;

Result<std::unique_ptr<ProcessWatch>> ProcessWatch::open(pid_t pid) {
  Descriptor fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (fd) return std::unique_ptr<ProcessWatch>(new ProcessWatch(pid, std::move(fd)));
  // EINVAL: the number of a thread, not of a process.
  if (errno == ESRCH || errno == EINVAL) return nullptr;
  std::string message = fmt::format("cannot watch process {}: {}", pid, error_in_words(errno));
  if (errno == EMFILE) message += ". Raise the limit on open files (ulimit -n).";
  return fail(ErrorKind::Io, std::move(message));
}

bool ProcessWatch::watch(Loop& loop, std::function<void()> ended) {
  watch_.reset();
  watch_ = EndWatch::start(loop, fd_.get(), std::move(ended));
  return watch_ != nullptr;
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
  // Up to init; a cycle is possible, because numbers pass from one process to another while we
  // read.
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
