// Starts processes, reports their ends, signals them. Every process gets a session and a process
// group of its own, and dies with the thread that started it (parent-death signal): start processes
// on a thread that lives as long as they may.
//
//   auto started = start_processes({spec0, spec1});
//   (*started)[0].watch(loop, [&] { auto exit = (*started)[0].exited(); ... });
//   (*started)[0].signal_group(SIGTERM);
//   (*started)[0].reap();
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/loop/descriptor.h"
#include "regroup/result.h"
#include "regroup/time.h"

namespace regroup::io {

class EndWatch;
class Loop;

// As of set_mempolicy(2), applied before exec.
struct MemoryPolicy {
  int mode = 0;            // MPOL_BIND, MPOL_PREFERRED, ...
  std::vector<int> nodes;  // NUMA nodes.
};

// A group of cgroup v1 that a process joins.
struct GroupToJoin {
  int procs = -1;  // Of its cgroup.procs file.
  // True: it joins soon after the program has begun, together with processes it has started by
  // then, if it is born in a group of cgroup v2 by which those are found. False, or without such a
  // group: before exec.
  bool later = false;
};

struct ProcessSpec {
  // argv[0] without a slash is looked for in PATH, the one of `environment`.
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"; exactly these.
  std::string directory = {};            // Empty: ours.
  // Descriptors that become 0, 1 and 2; -1: ours. Every other descriptor is closed.
  int input = -1;
  int output = -1;
  int errors = -1;
  std::vector<int> cpus = {};  // Affinity; empty: ours.
  std::optional<MemoryPolicy> memory = {};
  // A cgroup v2 directory that the process is born in; -1: ours.
  int cgroup = -1;
  std::vector<GroupToJoin> join = {};
  int guard = -1;  // Of Guard::descriptor(): is told of the session. -1: none.
};

inline constexpr int kUnknownCode = -1;

// How a process ended.
struct ProcessExit {
  int code = 0;    // kUnknownCode: other code in this program has waited for it.
  int signal = 0;  // Not 0: killed by it, and `code` means nothing.
  bool core_dumped = false;
  // Of the process and the children it waited for, the largest. Never less than what we ourselves
  // held when we started it: until its exec it is a copy of us, and the kernel counts that.
  std::int64_t peak_rss_bytes = 0;
  Duration cpu_time{};  // User and system, children it waited for included.
};

// Not every process could be started. Those that were have been killed and reaped.
struct StartError {
  std::size_t index = 0;    // Of the first spec that failed.
  bool for_cgroup = false;  // It could not be put into its control group.
  Error error;              // What was tried, errno in words, and what to check.
};

class Process {
 public:
  Process(pid_t pid, Descriptor pidfd);
  ~Process();  // Kills (the whole group) and reaps what still runs.
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  pid_t pid() const;

  // Calls back on the loop's thread, once, when the process has ended. The callback may reap, move
  // and destroy the process; the loop outlives it. False: no descriptors or memory left.
  bool watch(Loop& loop, std::function<void()> ended);

  // How it ended, if it has. It stays a zombie, so that its pid and its group's id are not given to
  // a stranger, until reap(). Remembered after that.
  std::optional<ProcessExit> exited() const;
  void reap();  // Only of one that has ended. After it, signals go nowhere.
  // Neither its pid nor its group's id may be reused before that is done: reap() waits for it.
  void not_reaped_before(std::shared_future<void> done);
  // Gives up one that cannot be killed: nothing waits for it any more.
  void abandon();

  // False: no process is left to get it. The group exists while it has a member, even without its
  // leader; until reap() the zombie counts as one, so ask belonging_to() which processes are really
  // alive.
  bool signal(int number) const;
  bool signal_group(int number) const;

 private:
  void release();
  pid_t pid_ = -1;
  Descriptor pidfd_;
  std::optional<ProcessExit> exit_;  // Once reaped.
  bool reaped_ = false;
  std::unique_ptr<EndWatch> watch_;
  std::shared_future<void> busy_;
};

// Starts all of them, or none. All are forked before the first is waited for, so that a hundred
// take little longer than one; returns when all have begun their program, or one could not. A
// program that cannot be executed is such an error: it never looks like a worker that ended with
// code 127.
struct StartOptions {
  // Called for each as soon as it has a pid, long before its program can do anything. If it begins
  // to watch the process here, ends are reported in the kernel's order, even those during the
  // start.
  std::function<void(std::size_t index, Process&)> forked = {};
  // Asked before each fork, and now and then while a program cannot be begun (its file system
  // hangs); true: Cancelled.
  std::function<bool()> give_up = {};
};
tl::expected<std::vector<Process>, StartError> start_processes(
    const std::vector<ProcessSpec>& specs, const StartOptions& options = {});

// Raises the limit of descriptors as far as the system allows. Processes that we start get the old
// limit.
void raise_open_files();

// How many may be open before the kernel must enlarge their table. It does so by doubling; with
// several threads each time waits until no processor can be looking at the old table, some ten or
// twenty milliseconds, in the middle of a start. So call it before the first thread. It costs a few
// bytes each; if it fails, it has no effect.
void make_room_for_descriptors(std::size_t count);

// From now on orphaned descendants become children of this process, instead of init's.
Result<void> become_subreaper();

// Children of this process: those it started and those it inherited, including dead ones that were
// not reaped.
std::vector<pid_t> children();

// Children that this process did not start itself (orphans it inherited as sub-reaper or as PID 1)
// and that have ended are reaped; `ours` are left alone. Returns how many.
int reap_orphans(const std::vector<pid_t>& ours);

}  // namespace regroup::io
