// The worker processes of one node: started together, watched, stopped together, and explained.
//
//   auto logs = regroup::make_default_logs_specs({.log_dir = "/var/log/train", .tee = everything});
//   auto workers = regroup::Workers::start(spec, std::move(*logs));
//   auto result = (*workers)->wait(std::nullopt);
//   if (!result->succeeded) explain(*result->cause);
//
// A worker has a session of its own, dies with this process, and takes everything with it that it
// started: when the group is over, none of it is alive, or `survivors` says what is, and why. (What
// is left running by WorkersSpec::children is alive, and no survivor.)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "regroup/error_file.h"
#include "regroup/logs.h"
#include "regroup/result.h"
#include "regroup/time.h"

namespace regroup {

struct WorkerCommand {
  // ${local_rank} and $local_rank are replaced in the arguments; $$ is a dollar sign.
  std::vector<std::string> argv;
  // The whole environment; only TORCHELASTIC_ERROR_FILE and REGROUP_GUARD are added (and what
  // `dump_signal` says).
  std::map<std::string, std::string> environment;
  std::string directory = {};          // Empty: ours.
  std::vector<int> cpus = {};          // The CPUs it may run on; empty: as we may.
  std::vector<int> memory_nodes = {};  // The NUMA nodes that its memory comes from; empty: any.
};

enum class CgroupUse {
  Auto,     // Where the kernel lets us.
  Off,      // Never.
  Require,  // Do not start without them.
};

// Whether the stacks of all workers are taken before they are ended.
enum class TakeStacks {
  Never,
  OnHang,  // For a hang or an expired timer.
  Always,  // For any failure: the others' stacks tell where they were when one failed.
};

// What becomes of processes that have left the session of their worker (setsid, a daemon) once all
// workers have ended with 0: an upload of the last checkpoint, say. Those that have not left it are
// ended then, and after a failure or on a signal all are.
enum class Children {
  Wait,   // They are waited for, at most WorkersSpec::children_wait, and then ended.
  End,    // They are ended at once.
  Leave,  // They are left running.
};

struct WorkersSpec {
  Attempt attempt;                      // One name for every command.
  std::vector<WorkerCommand> commands;  // By local rank.

  // The stop: this signal to everything of the group, the grace, SIGKILL, and a last wait.
  int stop_signal = 15;
  Duration grace = 30s;
  Duration kill_wait = 10s;

  Children children = Children::Wait;
  Duration children_wait = 300s;

  CgroupUse cgroup = CgroupUse::Auto;
  std::uint64_t memory_limit = 0;  // Bytes for each worker, enforced by its cgroup; 0: none.

  // This program has no children of its own, so that every orphan it inherits was a worker's.
  bool claim_orphans = false;

  // Asked now and then while a program cannot be started, for example because its file system
  // hangs. True: the start is given up.
  std::function<bool()> give_up_start = {};

  TakeStacks take_stacks = TakeStacks::OnHang;
  // For Python's faulthandler: sent to workers that catch it, when stacks are taken.
  // REGROUP_DUMP_SIGNAL and REGROUP_DUMP_FILE tell them. 0: none.
  int dump_signal = 0;

  // When no worker has done anything for this long, the workers hang, and are ended. Zero: not
  // checked.
  Duration hang_timeout{};
  // For this long after the start nothing counts. Empty: twice the timeout.
  std::optional<Duration> hang_grace = {};

  // Of the workers' output: docs/workers.md.
  std::string prefix_template = {};
  std::vector<std::string> out_filters = {};
  std::vector<std::string> err_filters = {};
  std::uint64_t log_max_bytes = 0;
  int log_keep = 3;

  // Gets what a person should know, once each, that is not a failure; from any thread, and must not
  // block. Empty: printed on standard error, between lines of the workers.
  std::function<void(const std::string&)> warn = {};
  // Makes a whole line of a text that is printed that way; from any thread. Empty: "regroup: " in
  // front of it.
  std::function<std::string(const std::string&)> warning_line = {};
};

// What became of one worker that did not end with 0 by itself.
struct ProcessFailure {
  int local_rank = 0;
  int global_rank = 0;
  std::string role = "default";
  std::string host;
  int pid = 0;
  int exit_code = 0;             // As Python gives it: killed by signal n is -n.
  std::string signal_name = {};  // "SIGSEGV"; empty: it was not killed by one.
  std::int64_t time_micros = 0;  // Since 1970: when we heard of its end.
  bool stopped_by_us = false;    // Because another one failed, or on order.
  bool survived = false;         // It could not be killed; what follows means nothing.
  std::string error_file = {};   // Its path, if the worker wrote it.
  std::optional<ErrorFile> error = {};
  // Why: the message of the error file, else the last line of the traceback that it printed, else
  // the signal or the exit code in words.
  std::string message = {};
  std::string traceback = {};              // Of the error file, else as printed; may be empty.
  std::vector<std::string> evidence = {};  // Lines; the most telling first.
  bool out_of_memory = false;              // Only where something shows it.
  std::string core_file = {};
  std::int64_t peak_rss_bytes = 0;
  std::string tail = {};      // The last of its stderr, at most 64 KiB;
  bool tail_of_both = false;  // of its stdout, too, where both went to the same place.
  std::string stack = {};     // Of its Python main thread, innermost first; empty: none was taken.
};

// Still there after SIGKILL and the last wait.
struct Survivor {
  int pid = 0;
  char state = '?';
  std::string name;
  std::string wait_channel;
};

struct WorkersResult {
  bool succeeded = false;
  std::vector<int> exit_codes;  // By local rank, as Python gives them.
  // The worker that failed first. Empty: none, or we stopped them all.
  std::optional<ProcessFailure> cause;
  std::vector<ProcessFailure> failures;  // The cause, and all others that did not end with 0.
  std::vector<Survivor> survivors;
  LogRoutes logs;
  // Where the workers were when their stacks were taken: "ranks 0-2 wait in all_reduce; rank 3 is
  // in read() under DataLoader". Empty: none were.
  std::string where = {};
  std::string stacks_file = {};
};

class Workers {
 public:
  // They are running when it returns. They belong to a thread of this object, not to the caller's.
  static Result<std::unique_ptr<Workers>> start(WorkersSpec spec, std::shared_ptr<LogsSpecs> logs);
  virtual ~Workers() = default;  // Kills what still runs.

  virtual std::map<int, int> pids() const = 0;  // By local rank.

  // The result once everything is over; nothing if `limit` passes before. Empty: waits as long as
  // it takes.
  virtual std::optional<WorkersResult> wait(std::optional<Duration> limit) = 0;

  // Begins a stop; wait() tells when it is done. A second one can only shorten the grace.
  virtual void stop(int signal, Duration grace) = 0;
  virtual void kill() = 0;
  // To every worker, and to no other process. (SIGCONT goes to their groups.)
  virtual void forward(int signal) = 0;
};

}  // namespace regroup
