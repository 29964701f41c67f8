#include "io/process/process_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <type_traits>

#include "io/process/process_descriptors.h"
#include "io/process/process_path.h"

// In the child every system call is raw: sanitizers wrap those of libc in code that takes locks,
// and libc itself remembers ids of the parent.

namespace regroup::io {
namespace {

constexpr std::size_t kBits = 8 * sizeof(unsigned long);

std::vector<unsigned long> bits(const std::vector<int>& numbers) {
  std::vector<unsigned long> mask;
  for (const int number : numbers) {
    const auto word = static_cast<std::size_t>(number) / kBits;
    if (mask.size() <= word) mask.resize(word + 1);
    mask[word] |= 1ul << (static_cast<std::size_t>(number) % kBits);
  }
  return mask;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> all;
  all.reserve(strings.size() + 1);
  // exec's old prototype; it writes nothing.
  for (const std::string& one : strings) all.push_back(const_cast<char*>(one.c_str()));
  all.push_back(nullptr);
  return all;
}

// The kernel reads whole words, and of an int among variable arguments only half is defined.
template <class T>
long word(T value) {
  if constexpr (std::is_integral_v<T>) return static_cast<long>(value);
  if constexpr (std::is_pointer_v<T>) return reinterpret_cast<long>(value);
  return 0;  // nullptr
}

template <class... Args>
long call(long number, Args... args) {
  return ::syscall(number, word(args)...);
}

[[noreturn]] void give_up(const Plan& plan, int report, StartStep step, int error,
                          std::int32_t candidate = 0) {
  const StartFailure failure{plan.index, step, error, candidate};
  call(SYS_write, report, &failure, sizeof failure);
  for (;;) call(SYS_exit_group, 127);
}

// The kernel's layout; libc's own is different.
struct KernelSignalAction {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)();
  std::uint64_t mask;
};

// A handler of ours must not run in the child, and exec resets those only afterwards. Signals that
// are ignored stay ignored, as `nohup` wants it, except those that programs ignore for themselves:
// a worker that never gets SIGPIPE writes to a closed pipe for ever, one without SIGCHLD cannot
// wait for its children.
void reset_signal_handlers() {
  constexpr int kSignals = 64;
  constexpr std::size_t kMaskSize = sizeof(KernelSignalAction::mask);
  const KernelSignalAction by_default{SIG_DFL, 0, nullptr, 0};
  for (int number = 1; number <= kSignals; ++number) {
    KernelSignalAction now{};
    if (call(SYS_rt_sigaction, number, nullptr, &now, kMaskSize) != 0) continue;
    const bool ignored =
        now.handler == SIG_IGN && number != SIGPIPE && number != SIGXFSZ && number != SIGCHLD;
    if (now.handler != SIG_DFL && !ignored)
      call(SYS_rt_sigaction, number, &by_default, nullptr, kMaskSize);
  }
}

void unblock_signals() {
  const std::uint64_t none = 0;
  call(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof none);
}

bool join(int procs) { return call(SYS_write, procs, "0", std::size_t{1}) == 1; }

bool join_cgroup(int directory) {
  const int procs =
      static_cast<int>(call(SYS_openat, directory, "cgroup.procs", O_WRONLY | O_CLOEXEC));
  return procs >= 0 && join(procs);
}

bool arrange_descriptors(const ProcessSpec& spec) {
  std::array<int, 3> wanted{spec.input, spec.output, spec.errors};
  // Where the wanted one is itself among 0..2 it is copied out of the way first: output 2 and
  // errors 1 change places.
  for (int to = 0; to < 3; ++to)
    if (wanted[to] >= 0 && wanted[to] < 3 && wanted[to] != to) {
      wanted[to] = static_cast<int>(call(SYS_fcntl, wanted[to], F_DUPFD_CLOEXEC, 3));
      if (wanted[to] < 0) return false;
    }
  for (int to = 0; to < 3; ++to) {
    if (wanted[to] < 0) continue;
    const bool done = wanted[to] == to ? call(SYS_fcntl, to, F_SETFD, 0) == 0
                                       : call(SYS_dup3, wanted[to], to, 0) == to;
    if (!done) return false;
  }
  return true;
}

// A text that the kernel does not know how to run is given to the shell, as execvp does. A program
// for another machine is not: the shell's complaint would look like a worker's failure.
bool looks_like_text(const char* path) {
  const int fd = static_cast<int>(call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return false;
  std::array<char, 256> start;
  const long size = call(SYS_read, fd, start.data(), start.size());
  call(SYS_close, fd);
  for (long i = 0; i < size; ++i) {
    if (start[i] == '\n') break;
    if (start[i] == '\0') return false;
  }
  return size >= 0;
}

[[noreturn]] void execute(Plan& plan, int report) {
  int error = ENOENT;
  std::int32_t failed = 0;
  const auto count = static_cast<std::int32_t>(plan.candidates.size());
  for (std::int32_t i = 0; i < count; ++i) {
    char* const path = plan.candidates[i].data();
    call(SYS_execve, path, plan.argv.data(), plan.environment.data());
    if (errno == ENOEXEC && looks_like_text(path)) {
      plan.shell_argv[1] = path;
      call(SYS_execve, plan.shell_argv[0], plan.shell_argv.data(), plan.environment.data());
    }
    switch (errno) {
      case ENOENT:
      case ENOTDIR:
      case ESTALE:
      case ENODEV:
      case ETIMEDOUT:
        continue;  // Not in this directory, or the directory cannot be reached now.
      case EACCES:
        error = EACCES;  // A later one may be executable.
        failed = i;
        continue;
      default:
        give_up(plan, report, StartStep::Execute, errno, i);
    }
  }
  give_up(plan, report, StartStep::Execute, error, failed);
}

// "*PID", as the guard reads it. It knows us by that, should our parent be killed before it has told
// the guard itself.
void tell_guard(int guard) {
  std::array<char, 16> line{};
  std::size_t begin = line.size();
  for (auto pid = static_cast<unsigned long>(call(SYS_getpid)); pid > 0; pid /= 10)
    line[--begin] = static_cast<char>('0' + pid % 10);
  line[--begin] = '*';
  call(SYS_sendto, guard, line.data() + begin, line.size() - begin, MSG_NOSIGNAL | MSG_DONTWAIT,
       nullptr, 0);
}

}  // namespace

Plan make_plan(const ProcessSpec& spec, std::int32_t index) {
  static char shell[] = "/bin/sh";
  Plan plan;
  plan.spec = &spec;
  plan.index = index;
  plan.candidates = program_candidates(spec.argv.front(), search_path(spec.environment));
  plan.argv = pointers(spec.argv);
  plan.environment = pointers(spec.environment);
  plan.shell_argv = {shell, nullptr};
  plan.shell_argv.insert(plan.shell_argv.end(), plan.argv.begin() + 1, plan.argv.end());
  plan.cpus = bits(spec.cpus);
  if (spec.memory) plan.nodes = bits(spec.memory->nodes);
  return plan;
}

void run_child(Plan& plan, const ChildSurroundings& around) {
  const ProcessSpec& spec = *plan.spec;
  const auto must = [&](bool done, StartStep step) {
    if (!done) give_up(plan, around.report, step, errno);
  };
  must(call(SYS_setsid) >= 0, StartStep::Session);
  if (spec.guard >= 0) tell_guard(spec.guard);
  must(call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0, StartStep::ParentDeath);
  // If the parent died before that call, no signal will come any more.
  if (call(SYS_getppid) != around.parent) call(SYS_exit_group, 127);
  reset_signal_handlers();
  // Groups first, so that all the rest is counted there. And before the descriptors change places.
  if (around.join_cgroup) must(join_cgroup(spec.cgroup), StartStep::Join);
  for (const GroupToJoin& group : spec.join)
    if (!joins_later(spec, group)) must(join(group.procs), StartStep::Join);
  must(arrange_descriptors(spec), StartStep::Descriptors);
  // On exec, not now: the report must get through until then.
  close_descriptors_from(3, Closing::OnExec);
  if (!spec.directory.empty())
    must(call(SYS_chdir, spec.directory.c_str()) == 0, StartStep::Directory);
  if (!plan.cpus.empty())
    must(call(SYS_sched_setaffinity, 0, plan.cpus.size() * sizeof(unsigned long),
              plan.cpus.data()) == 0,
         StartStep::Affinity);
  if (spec.memory)
    // The kernel uses one bit less than it is told.
    must(call(SYS_set_mempolicy, spec.memory->mode,
              plan.nodes.empty() ? nullptr : plan.nodes.data(), plan.nodes.size() * kBits + 1) == 0,
         StartStep::Memory);
  if (around.files != nullptr) call(SYS_prlimit64, 0, RLIMIT_NOFILE, around.files, nullptr);
  unblock_signals();
  execute(plan, around.report);
}

}  // namespace regroup::io
