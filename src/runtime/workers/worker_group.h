// The workers of one node, from their start to their result: plays core/supervision on a loop.
//
// Lives on the loop's thread, which starts the processes: it must outlive them. One start per
// object; the next attempt is another object. The log pump and the guard belong to its host, for
// all attempts.
//
//   WorkerGroup group(loop, host, spec, routes, {.over = [&](WorkersResult result) { ... }});
//   if (auto started = group.start(); !started) ...  // Nothing runs.
//   group.stop(SIGTERM, 30s);
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/hang/blame.h"
#include "core/hang/hang.h"
#include "core/supervision/supervision.h"
#include "io/cgroup/cgroup.h"
#include "io/loop/loop.h"
#include "io/process/process.h"
#include "io/process/process_table.h"
#include "regroup/workers.h"
#include "runtime/evidence/evidence.h"
#include "runtime/evidence/hang_look.h"
#include "runtime/evidence/stacks.h"
#include "runtime/workers/worker_host.h"

namespace regroup::runtime {

struct GroupEvents {
  // A worker failed, the first of all; nothing has been done about it yet. Its tail may not be
  // complete.
  std::function<void(const ProcessFailure&)> failed = {};
  // A stop takes more than a moment: says what we wait for, every few seconds.
  std::function<void(const std::string&)> waiting = {};
  // Called at every look for a hang, with --hang-timeout: whether the workers are stalled. The
  // answer of all nodes, whether the run hangs, comes by hear_hang(). Empty: there is no other node
  // to ask.
  std::function<void(const std::optional<core::hang::Stall>&)> stalled = {};
  // Called when all nodes agree on a hang: where our ranks are. Which rank is to blame comes by
  // hear_blame().
  std::function<void(const std::vector<core::hang::RankAt>&)> where = {};
  // Once, at the end: no process is alive any more, and every line of output has been written.
  std::function<void(WorkersResult)> over = {};
};

enum class StopFor { Order, Failure };

class WorkerGroup {
 public:
  WorkerGroup(io::Loop& loop, WorkerHost& host, WorkersSpec spec, LogRoutes routes,
              GroupEvents events);
  ~WorkerGroup();  // Kills what still runs.
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  Result<void> start();
  // StopFor::Failure: because of a failure, here or on another node, so the workers' stacks may be
  // wanted.
  void stop(int signal, Duration grace, StopFor reason = StopFor::Order);
  void kill();
  void forward(int signal);
  // This worker is to die for what it did (its timer expired): its end counts as its own failure,
  // and `why` is the failure's message. The stacks of all are taken before. False: too late, it has
  // ended or is being stopped.
  bool end_for(int local_rank, int signal, const std::string& why);
  // SIGCHLD came: orphans that have ended are reaped.
  void on_child();

  // Whether the workers of all nodes are stalled, which makes a hang; and which of them is to
  // blame.
  void hear_hang(bool all_say_so);
  void hear_blame(const core::hang::Blame& blame);
  // The worker sent a timer request: a sign of life.
  void note_request(int local_rank);

  std::map<int, pid_t> pids() const;
  io::Roots roots() const;  // Which processes belong to the group: see io::belonging_to().
  std::string waiting_for() const;
  struct Standing {
    WorkerName name;
    pid_t pid = 0;  // Also of one that has ended.
    core::supervision::End end = core::supervision::End::None;
  };
  std::vector<Standing> standing() const;  // By local rank.
  // The workers that still run are being ended.
  bool stopping() const;
  bool over() const { return machine_.phase() == core::supervision::Phase::Over; }

 private:
  struct Worker {
    std::string program;
    std::string error_file;
    std::unique_ptr<io::CgroupLeaf> leaf;
    std::optional<io::ProcessExit> exit;
    std::int64_t ended_micros = 0;
    Evidence evidence;
    std::string ended_for;  // Why we end it; empty: we do not.
    std::uint64_t requests = 0;
  };

  Result<void> make_leaves();
  io::ProcessSpec process_spec(int rank, const WorkerStreams& streams);
  void ended(int rank);
  void look_again_at(int rank);
  core::supervision::Effects hear_end(int rank);
  void hear_all_ends(core::supervision::Effects& effects);
  void play(core::supervision::Effects effects);
  void arm();
  void forget_sessions();
  void expect_progress();
  void signal_all(int number);
  void kill_all();
  std::vector<pid_t> our_children() const;
  void reap_orphans();
  int count_alive();
  std::vector<io::ProcessInfo> alive() const;
  void finish();
  void report(const std::vector<int>& still_open);
  ProcessFailure describe(int rank) const;
  int global_rank(int local_rank) const;

  std::string dump_file(int rank) const;
  void with_stacks(const std::string& why, std::function<void()> then);
  void stacks_taken(Stacks stacks);
  void give_up_stacks();
  bool holds_for_stacks(const core::supervision::SignalAll& order);
  bool execute(int local_rank, int signal, const std::string& why);
  void look_for_hangs();
  void look_for_a_hang();
  void follow_hang();
  bool is_judged() const;
  void judge_hang(const core::hang::Stall& stall);
  void no_hang();

  io::Loop& loop_;
  WorkerHost& host_;
  WorkersSpec spec_;
  LogRoutes routes_;
  GroupEvents events_;
  core::supervision::Supervision machine_;
  io::Timer deadline_;
  io::Timer progress_;
  io::Timer second_look_;
  std::set<int> traced_;  // They have ended, but their tracers still hold them.
  io::Timer hang_look_;
  io::Timer stacks_limit_;
  std::optional<core::hang::HangDetector> hang_;
  std::optional<core::hang::Stall> stall_;  // As of the last look.
  bool all_say_hang_ = false;
  std::optional<core::hang::Stall> hung_;      // Judged to be a hang.
  std::optional<Instant> blame_ourselves_at_;  // If no other node has acted by then.
  StopFor stop_for_ = StopFor::Failure;        // Until a stop is ordered.
  std::unique_ptr<StackTaker> taker_;
  std::vector<std::function<void()>> after_stacks_;
  std::optional<Stacks> stacks_;
  Before before_;
  std::vector<Worker> workers_;
  std::vector<io::Process> processes_;
  std::vector<pid_t> told_guard_;
  std::vector<Survivor> survivors_;
  std::string host_name_;
  // The pump may call back when we are gone.
  std::shared_ptr<WorkerGroup*> alive_token_;
};

}  // namespace regroup::runtime
