#include <fcntl.h>
#include <fmt/core.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "io/file/pipe.h"
#include "io/loop/descriptor_limit.h"
#include "io/process/process.h"
#include "io/process/process_child.h"
#include "io/process/process_join.h"
#include "io/process/process_start_errors.h"

namespace regroup::io {
namespace {

// While it lives, no signal is handled by this thread, nor by children it forks.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

struct Forked {
  pid_t pid = -1;  // 0: we are the child. -1: errno says why.
  int pidfd = -1;
  bool in_cgroup = true;
};

// A fork that also returns a pidfd, so that there is no moment at which we have only the pid; libc
// has no such call. A full copy of memory, unlike vfork's: the parent goes on at once, and all
// children prepare themselves in parallel.
Forked fork_with_pidfd(int cgroup) {
  Forked forked;
  clone_args args{};
  args.flags = CLONE_PIDFD;
  args.pidfd = reinterpret_cast<std::uintptr_t>(&forked.pidfd);
  args.exit_signal = SIGCHLD;
  std::size_t size = CLONE_ARGS_SIZE_VER0;
  if (cgroup >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(cgroup);
    size = CLONE_ARGS_SIZE_VER2;
  }
  forked.pid = static_cast<pid_t>(::syscall(SYS_clone3, &args, size));
  const bool unknown = errno == ENOSYS || errno == EPERM || errno == EINVAL || errno == E2BIG;
  if (forked.pid >= 0 || !unknown) return forked;
  // Docker's sandbox hides clone3, and kernels before 5.7 do not support cgroups in it.
  forked.in_cgroup = cgroup < 0;
  forked.pid = static_cast<pid_t>(
      ::syscall(SYS_clone, static_cast<long>(CLONE_PIDFD | SIGCHLD), 0L, &forked.pidfd, 0L, 0L));
  return forked;
}

// What is wrong with the spec before anything is tried. Empty: nothing.
std::string complaint(const ProcessSpec& spec) {
  if (spec.argv.empty()) return "cannot start a process: no program is given.";
  constexpr int kLargestNumber = 65535;  // Far above what the kernel allows.
  std::vector<int> numbers = spec.cpus;
  if (spec.memory)
    numbers.insert(numbers.end(), spec.memory->nodes.begin(), spec.memory->nodes.end());
  for (const int number : numbers)
    if (number < 0 || number > kLargestNumber)
      return fmt::format(
          "cannot start {} bound to CPU or NUMA node {}: there is none. They are numbered from 0; "
          "see lscpu.",
          printable(spec.argv[0]), number);
  return {};
}

// The limit before it was raised; empty: it never was.
std::optional<rlimit> files_before;

// The first failure in the order of the specs; empty if all have begun their program. Blocks until
// then, or until waiting is of no use any more.
std::optional<StartFailure> first_failure(int report, const std::function<bool()>& give_up) {
  constexpr int kAskAgain = 100;  // Milliseconds.
  std::optional<StartFailure> first;
  StartFailure failure;
  for (;;) {
    pollfd ready{.fd = report, .events = POLLIN, .revents = 0};
    if (give_up && ::poll(&ready, 1, kAskAgain) == 0) {
      if (give_up()) return StartFailure{0, StartStep::Execute, ECANCELED};
      continue;
    }
    const ssize_t size = ::read(report, &failure, sizeof failure);
    if (size < 0 && errno == EINTR) continue;
    if (size != static_cast<ssize_t>(sizeof failure)) return first;
    if (!first || failure.index < first->index) first = failure;
  }
}

// All are killed first, then each is waited for.
void kill_all(std::vector<Process>& processes) {
  for (const Process& process : processes) {
    process.signal(SIGKILL);
    process.signal_group(SIGKILL);
  }
  processes.clear();
}

// For the processes that were started. If a descriptor cannot be duplicated, only the account of
// its memory is lost.
std::vector<LateJoin> late_joins(const std::vector<ProcessSpec>& specs,
                                 const std::vector<Process>& processes) {
  std::vector<LateJoin> joins;
  joins.reserve(processes.size());
  for (std::size_t i = 0; i < processes.size(); ++i)
    for (const GroupToJoin& group : specs[i].join) {
      if (!joins_later(specs[i], group)) continue;
      auto procs = duplicate(group.procs);
      auto born_in = duplicate(specs[i].cgroup);
      if (procs && born_in)
        joins.push_back({processes[i].pid(), std::move(*procs), std::move(*born_in)});
    }
  return joins;
}

}  // namespace

tl::expected<std::vector<Process>, StartError> start_processes(
    const std::vector<ProcessSpec>& specs, const StartOptions& options) {
  std::vector<Plan> plans;
  plans.reserve(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (std::string wrong = complaint(specs[i]); !wrong.empty())
      return tl::unexpected(StartError{i, false, {ErrorKind::InvalidArgument, std::move(wrong)}});
    plans.push_back(make_plan(specs[i], static_cast<std::int32_t>(i)));
  }
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return tl::unexpected(
        StartError{0,
                   false,
                   {ErrorKind::Io, std::string("cannot start processes: cannot open a pipe: ") +
                                       std::strerror(errno) +
                                       ". Raise the limit on open files (ulimit -n)."}});
  Descriptor report(ends[0]);
  Descriptor low_end(ends[1]);
  // Moved away from 0..2, which the child arranges.
  Descriptor write_end(::fcntl(ends[1], F_DUPFD_CLOEXEC, 3));
  low_end.close();

  std::vector<Process> processes;
  processes.reserve(specs.size());
  std::optional<StartFailure> failure;
  ChildSurroundings around{.parent = ::getpid(),
                           .report = write_end.get(),
                           .files = files_before ? &*files_before : nullptr};
  for (Plan& plan : plans) {
    if (options.give_up && options.give_up()) {
      failure = StartFailure{plan.index, StartStep::Fork, ECANCELED};
      break;
    }
    const SignalsBlocked blocked;
    const Forked forked = fork_with_pidfd(plan.spec->cgroup);
    if (forked.pid == 0) {
      around.join_cgroup = !forked.in_cgroup;
      run_child(plan, around);
    }
    if (forked.pid > 0) processes.emplace_back(forked.pid, Descriptor(forked.pidfd));
    if (forked.pid > 0 && options.forked) options.forked(processes.size() - 1, processes.back());
    if (forked.pid < 0) failure = StartFailure{plan.index, StartStep::Fork, errno};
    // A kernel without pidfds ignores the flag. Without them we would not be told of ends.
    if (forked.pidfd < 0 && !failure) failure = StartFailure{plan.index, StartStep::Fork, ENOSYS};
    if (failure) break;
  }
  write_end.close();
  // While the programs begin. If one of them cannot, the others wait for this before they end.
  if (auto joins = late_joins(specs, processes); !joins.empty()) {
    const SignalsBlocked blocked;  // It is inherited by the thread too.
    const std::shared_future<void> joined = join_late(std::move(joins));
    for (Process& process : processes) process.not_reaped_before(joined);
  }
  if (!failure) failure = first_failure(report.get(), options.give_up);
  if (!failure) return processes;
  kill_all(processes);
  const auto index = static_cast<std::size_t>(failure->index);
  if (failure->error == ECANCELED)
    return tl::unexpected(StartError{
        index, false, {ErrorKind::Cancelled, "interrupted before every worker had been started"}});
  const bool for_cgroup =
      failure->step == StartStep::Join ||
      (failure->step == StartStep::Fork && plans[index].spec->cgroup >= 0 &&
       failure->error != EAGAIN && failure->error != ENOMEM && failure->error != ENOSYS);
  return tl::unexpected(StartError{index, for_cgroup, explain(plans[index], *failure)});
}

void raise_open_files() {
  const DescriptorLimit limit = raise_descriptor_limit();
  if (limit.before.rlim_cur < limit.now && !files_before) files_before = limit.before;
}

void make_room_for_descriptors(std::size_t count) {
  rlimit limit{};
  if (count == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == 0) return;
  const Descriptor any(::open("/", O_PATH | O_CLOEXEC));
  // The table is as large as the highest number needs it, and never shrinks again.
  const auto highest = std::min<rlim_t>(count, limit.rlim_cur) - 1;
  const Descriptor far(::fcntl(any.get(), F_DUPFD_CLOEXEC, static_cast<int>(highest)));
}

}  // namespace regroup::io
