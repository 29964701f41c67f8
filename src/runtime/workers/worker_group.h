// The workers of one node, from their start to their result: plays core/workers on a loop, with a
// backend that has the workers.
//
// Lives on the loop's thread. One start per object; the next attempt is another object, with the
// same backend.
//
//   LocalProcesses processes(loop, host, spec, logs);
//   WorkerGroup group(loop, {processes, &processes}, spec, {.over = [&](WorkersResult result) {}});
//   if (auto started = group.start(); !started) ...  // Nothing runs.
//   group.stop(SIGTERM, 30s);
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/hang/blame.h"
#include "core/workers/group.h"
#include "io/loop/loop.h"
#include "regroup/worker_backend.h"
#include "runtime/workers/worker_inspector.h"

namespace regroup::runtime {

struct GroupEvents {
  // A worker failed, the first of all; nothing has been done about it yet. Its tail may not be
  // complete.
  std::function<void(const ProcessFailure&)> failed = {};
  // A stop takes more than a moment: says what we wait for, every few seconds.
  std::function<void(const std::string&)> waiting = {};
  // All workers have succeeded; what they left in sessions of its own is still waited for, until
  // over(). The next attempt must wait for that. The result has the exit codes, and no more. Empty:
  // nobody else is to be told.
  std::function<void(WorkersResult)> succeeded = {};
  // Called at every look for a hang, with --hang-timeout: whether the workers are stalled. The
  // answer of all nodes, whether the run hangs, comes by hear_hang(). Empty: there is no other node
  // to ask.
  std::function<void(const std::optional<core::hang::Votes>&)> stalled = {};
  // Called when all nodes agree on a hang: where our ranks are. Which rank is to blame comes by
  // hear_blame().
  std::function<void(const std::vector<core::hang::RankAt>&)> where = {};
  // Once, at the end: no process is alive any more, and every line of output has been written.
  std::function<void(WorkersResult)> over = {};
};

using core::workers::StopFor;

// Where the workers run, and who can look at them.
struct Backend {
  WorkerBackend& workers;
  WorkerInspector* inspector = nullptr;  // Null: nobody can.
};

class WorkerGroup {
 public:
  WorkerGroup(io::Loop& loop, Backend backend, WorkersSpec spec, GroupEvents events);
  ~WorkerGroup();  // Kills what still runs.
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  Result<void> start();
  // StopFor::Failure: because of a failure, here or on another node, so the workers' stacks may be
  // wanted.
  void stop(int signal, Duration grace, StopFor reason = StopFor::Order);
  void kill();
  void forward(int signal);
  // After succeeded(): nobody needs the group any more, and what may outlive it is left.
  void let_go();
  // This worker is to die for what it did (its timer expired): its end counts as its own failure,
  // and `why` is the failure's message. The stacks of all are taken before. False: too late, it has
  // ended or is being stopped.
  bool end_for(int local_rank, int signal, const std::string& why);
  bool was_ended_for(int local_rank) const { return !machine_.ended_for(local_rank).empty(); }
  // SIGCHLD came: what the workers left behind may have ended.
  void on_child();

  // Whether the workers of all nodes are stalled, which makes a hang; and which of them is to
  // blame.
  void hear_hang(bool all_say_so);
  void hear_blame(const core::hang::Blame& blame);

  std::map<int, pid_t> pids() const;  // By local rank.
  std::string waiting_for() const;
  struct Standing {
    WorkerName name;
    pid_t pid = 0;  // Also of one that has ended.
    core::supervision::End end = core::supervision::End::None;
  };
  std::vector<Standing> standing() const;  // By local rank.
  // The workers that still run are being ended.
  bool stopping() const { return machine_.stopping(); }
  bool over() const { return machine_.over(); }
  bool lingers() const { return machine_.lingers(); }

 private:
  void ended(int rank, WorkerExit exit);
  void play(core::workers::Effects effects);
  void act_on(const core::workers::Effect& effect);
  void arm();
  void expect_progress();
  void stacks_taken(const Stacks& stacks);
  void succeeded();
  void tell(const std::string& text) const;
  void report();
  ProcessFailure describe(int rank) const;

  io::Loop& loop_;
  Backend backend_;
  WorkersSpec spec_;
  GroupEvents events_;
  core::workers::Group machine_;
  core::workers::Effects to_play_;
  bool playing_ = false;
  bool started_ = false;
  io::Timer deadline_;
  io::Timer progress_;
  std::vector<std::int64_t> ended_micros_;
  std::string host_name_;
  // The backend may call when we are gone.
  std::shared_ptr<WorkerGroup*> alive_token_;
};

}  // namespace regroup::runtime
