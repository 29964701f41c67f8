#include "io/process/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "io/loop/clock.h"
#include "io/process/end_watch.h"
#include "io/process/process_table.h"

namespace regroup::io {
namespace {

constexpr int kPidfd = 3;  // P_PIDFD; an enumerator in some headers, missing in others.

// A process that hangs in the kernel (a dead network file system, a driver) does not die of
// SIGKILL. The end of our own program must not wait for that.
constexpr Duration kLongestWait = 2s;

enum class Child { Runs, Ended, Unknown };

// libc's waitid hides the resource usage that the kernel reports.
Child wait(idtype_t type, id_t id, int options, siginfo_t* info, rusage* usage = nullptr) {
  long result;
  do {
    *info = {};
    result = ::syscall(SYS_waitid, type, id, info, options, usage);
  } while (result != 0 && errno == EINTR);
  if (result != 0) return Child::Unknown;
  return info->si_pid == 0 ? Child::Runs : Child::Ended;
}

Child wait_child(pid_t pid, int pidfd, int options, siginfo_t* info, rusage* usage = nullptr) {
  if (pidfd >= 0) {
    const auto child =
        wait(static_cast<idtype_t>(kPidfd), static_cast<id_t>(pidfd), options, info, usage);
    if (child != Child::Unknown || errno != EINVAL) return child;
  }
  return wait(P_PID, static_cast<id_t>(pid), options, info, usage);  // Linux before 5.4.
}

Duration duration(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

void wait_for_end(int pidfd) {
  const Instant until = deadline_after(kLongestWait);
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now());
    if (left <= 0ms) return;
    pollfd end{.fd = pidfd, .events = POLLIN, .revents = 0};
    if (::poll(&end, 1, static_cast<int>(left.count())) >= 0 || errno != EINTR) return;
  }
}

}  // namespace

Process::Process(pid_t pid, Descriptor pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
Process::~Process() { release(); }

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      exit_(other.exit_),
      reaped_(other.reaped_),
      watch_(std::move(other.watch_)),
      busy_(std::move(other.busy_)) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this == &other) return *this;
  release();
  pid_ = std::exchange(other.pid_, -1);
  pidfd_ = std::move(other.pidfd_);
  exit_ = other.exit_;
  reaped_ = other.reaped_;
  watch_ = std::move(other.watch_);
  busy_ = std::move(other.busy_);
  return *this;
}

void Process::release() {
  watch_.reset();
  if (pid_ > 0 && !reaped_) {
    signal(SIGKILL);  // It may not have got as far as having a group.
    signal_group(SIGKILL);
    wait_for_end(pidfd_.get());
    if (busy_.valid()) busy_.wait();
    siginfo_t info;
    wait_child(pid_, pidfd_.get(), WEXITED | WNOHANG, &info);
  }
  pidfd_.close();
  pid_ = -1;
}

pid_t Process::pid() const { return pid_; }

bool Process::watch(Loop& loop, std::function<void()> ended) {
  watch_.reset();
  if (pidfd_) watch_ = EndWatch::start(loop, pidfd_.get(), std::move(ended));
  return watch_ != nullptr;
}

std::optional<ProcessExit> Process::exited() const {
  if (reaped_) return exit_;
  siginfo_t info;
  rusage usage{};
  switch (wait_child(pid_, pidfd_.get(), WEXITED | WNOHANG | WNOWAIT, &info, &usage)) {
    case Child::Runs:
      return {};
    case Child::Unknown:
      return ProcessExit{.code = kUnknownCode};
    case Child::Ended:
      break;
  }
  ProcessExit exit;
  (info.si_code == CLD_EXITED ? exit.code : exit.signal) = info.si_status;
  exit.core_dumped = info.si_code == CLD_DUMPED;
  exit.peak_rss_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  exit.cpu_time = duration(usage.ru_utime) + duration(usage.ru_stime);
  return exit;
}

void Process::reap() {
  if (reaped_) return;
  exit_ = exited();
  CHECK(exit_.has_value());
  if (busy_.valid()) busy_.wait();
  siginfo_t info;
  wait_child(pid_, pidfd_.get(), WEXITED | WNOHANG, &info);
  reaped_ = true;
  watch_.reset();
  pidfd_.close();
}

void Process::not_reaped_before(std::shared_future<void> done) { busy_ = std::move(done); }

void Process::abandon() {
  reaped_ = true;
  watch_.reset();
  pidfd_.close();
}

bool Process::signal(int number) const {
  if (reaped_ || pid_ <= 0) return false;
  // It is our own child and not reaped, so the pid is still its own and no pidfd is needed.
  // Sandboxes forbid those calls.
  siginfo_t info;
  if (wait_child(pid_, pidfd_.get(), WEXITED | WNOHANG | WNOWAIT, &info) != Child::Runs)
    return false;
  return ::kill(pid_, number) == 0;
}

bool Process::signal_group(int number) const {
  if (reaped_ || pid_ <= 1) return false;  // -1 would mean every process.
  // If other code has reaped it (a program that embeds us and waits for all children), the number
  // may be reused by now.
  siginfo_t info;
  if (wait_child(pid_, pidfd_.get(), WEXITED | WNOHANG | WNOWAIT, &info) == Child::Unknown)
    return false;
  return ::kill(-pid_, number) == 0;
}

Result<void> become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0) return {};
  return fail(ErrorKind::Io, std::string("cannot adopt orphaned processes of workers: prctl: ") +
                                 std::strerror(errno) +
                                 ". Those that outlive their worker will not be seen.");
}

namespace {

// The kernel's own list, one file a thread. Empty where it is built without.
std::optional<std::vector<pid_t>> listed_children() {
  DIR* tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return {};
  std::optional<std::vector<pid_t>> children;
  while (const dirent* entry = ::readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    const std::string path = "/proc/self/task/" + std::string(entry->d_name) + "/children";
    FILE* file = ::fopen(path.c_str(), "re");
    if (file == nullptr) continue;
    if (!children) children.emplace();
    int pid = 0;
    while (std::fscanf(file, "%d", &pid) == 1) children->push_back(pid);
    std::fclose(file);
  }
  ::closedir(tasks);
  return children;
}

}  // namespace

std::vector<pid_t> children() {
  if (auto listed = listed_children()) return *listed;
  std::vector<pid_t> found;
  const pid_t self = ::getpid();
  for (const ProcessInfo& process : list_processes())
    if (process.parent == self) found.push_back(process.pid);
  return found;
}

int reap_orphans(const std::vector<pid_t>& ours) {
  siginfo_t info;
  // Mostly none has ended, and we need not read all of /proc.
  if (wait(P_ALL, 0, WEXITED | WNOHANG | WNOWAIT, &info) != Child::Ended) return 0;
  int reaped = 0;
  for (const pid_t child : children()) {
    if (std::find(ours.begin(), ours.end(), child) != ours.end()) continue;
    if (wait(P_PID, static_cast<id_t>(child), WEXITED | WNOHANG, &info) == Child::Ended) ++reaped;
  }
  return reaped;
}

}  // namespace regroup::io
