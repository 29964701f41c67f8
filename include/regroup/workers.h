// The worker processes of one node: started together, watched, stopped together, and explained.
//
//   auto logs = regroup::make_default_logs_specs({.log_dir = "/var/log/train", .tee = everything});
//   auto workers = regroup::Workers::start(spec, std::move(*logs));
//   auto result = (*workers)->wait(std::nullopt);
//   if (!result->succeeded) explain(*result->cause);
//
// A worker has a session of its own, dies with this process, and takes everything with it that it
// started: when the group is over nothing of it lives, or `survivors` says what does, and why.
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
  // All of it; only TORCHELASTIC_ERROR_FILE is added (and what `dump_signal` says).
  std::map<std::string, std::string> environment;
  std::string directory = {};          // Empty: ours.
  std::vector<int> cpus = {};          // The CPUs it may run on; empty: as we may.
  std::vector<int> memory_nodes = {};  // The NUMA nodes that its memory comes from; empty: any.
};

enum class CgroupUse {
  Auto,     // Where the kernel lets us.
  Off,      // Never.
  Require,  // Or do not start.
};

// Whether the stacks of all workers are taken before they are ended.
enum class TakeStacks {
  Never,
  OnHang,  // For a hang or an expired timer.
  Always,  // For any failure: others tell where they were when one failed.
};

struct WorkersSpec {
  Attempt attempt;                      // One name for every command.
  std::vector<WorkerCommand> commands;  // By local rank.

  // The stop: this signal to everything of the group, the grace, SIGKILL, and a last wait.
  int stop_signal = 15;
  Duration grace = 30s;
  Duration kill_wait = 10s;

  CgroupUse cgroup = CgroupUse::Auto;
  std::uint64_t memory_limit = 0;  // Bytes for each worker, enforced by its cgroup; 0: none.

  // This program has no children of its own, so that every orphan it inherits was a worker's.
  bool claim_orphans = false;

  // Asked now and then while a program cannot be begun, because its file system hangs, say. True:
  // the start is given up.
  std::function<bool()> give_up_start = {};

  TakeStacks take_stacks = TakeStacks::OnHang;
  // For Python's faulthandler: sent to workers that catch it, when stacks are taken. They are told
  // by REGROUP_DUMP_SIGNAL and REGROUP_DUMP_FILE. 0: none.
  int dump_signal = 0;

  // Nobody has done anything for so long: the workers hang, and are ended. Zero: not looked for.
  Duration hang_timeout{};
  // After the start nothing counts for so long. Empty: twice the timeout.
  std::optional<Duration> hang_grace = {};

  // Of their output: docs/workers.md.
  std::string prefix_template = {};
  std::vector<std::string> out_filters = {};
  std::vector<std::string> err_filters = {};
  std::uint64_t log_max_bytes = 0;
  int log_keep = 3;

  // What a person should know, once each, and not a failure; from any thread, and must not block.
  // Empty: printed on standard error, between lines of the workers.
  std::function<void(const std::string&)> warn = {};
  // How what is printed that way is written, as a whole line; from any thread. Empty: "regroup: "
  // in front of it.
  std::function<std::string(const std::string&)> warning_line = {};
};

// What became of one worker that did not end with 0 by itself.
struct ProcessFailure {
  int local_rank = 0;
  int global_rank = 0;
  std::string role = "default";
  std::string host;
  int pid = 0;
  int exit_code = 0;             // As Python says it: killed by signal n is -n.
  std::string signal_name = {};  // "SIGSEGV"; empty: it was not killed by one.
  std::int64_t time_micros = 0;  // Since 1970: when we heard of its end.
  bool stopped_by_us = false;    // Because of another one, or on order.
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
  std::string tail = {};   // The last of its stderr, at most 64 KiB.
  std::string stack = {};  // Of its Python main thread, innermost first; empty: none was taken.
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
  std::vector<int> exit_codes;           // By local rank, as Python says them.
  std::optional<ProcessFailure> cause;   // Who failed first. Empty: nobody, or we stopped them all.
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
  // They run on return. They belong to a thread of this object, not to the caller's.
  static Result<std::unique_ptr<Workers>> start(WorkersSpec spec, std::shared_ptr<LogsSpecs> logs);
  virtual ~Workers() = default;  // Kills what still runs.

  virtual std::map<int, int> pids() const = 0;  // By local rank.

  // The result once all is over; nothing if `limit` passes before. Empty: as long as it takes.
  virtual std::optional<WorkersResult> wait(std::optional<Duration> limit) = 0;

  // Begins a stop; wait() tells when it is done. A second one can only shorten the grace.
  virtual void stop(int signal, Duration grace) = 0;
  virtual void kill() = 0;
  // To every worker, and to nobody else. (SIGCONT goes to their groups.)
  virtual void forward(int signal) = 0;
};

}  // namespace regroup
