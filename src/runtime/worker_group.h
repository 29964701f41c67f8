// The workers of one node, from their start to their result: plays core/supervision on a loop.
//
// Lives on the loop's thread, which starts the processes: it must outlive them. One start per
// object; the next attempt is another one. The log pump and the guard are its host's, for all
// attempts.
//
//   WorkerGroup group(loop, pump, guard, std::move(setup), {.over = [&](WorkersResult result)
//   {...}}); if (auto started = group.start(); !started) ...      // Nothing runs.
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

#include "core/supervision/supervision.h"
#include "io/cgroup.h"
#include "io/loop.h"
#include "io/process.h"
#include "io/process_table.h"
#include "regroup/workers.h"
#include "runtime/evidence.h"
#include "runtime/worker_host.h"

namespace regroup::runtime {

struct GroupEvents {
  // Somebody failed first; nothing has been done about it yet. Its tail may not be complete.
  std::function<void(const ProcessFailure&)> failed = {};
  // A stop takes more than a moment: what is waited for, every few seconds.
  std::function<void(const std::string&)> waiting = {};
  // Once, at the end: nothing lives any more, every line is where it belongs.
  std::function<void(WorkersResult)> over = {};
};

class WorkerGroup {
 public:
  WorkerGroup(io::Loop& loop, WorkerHost& host, WorkersSpec spec, LogRoutes routes,
              GroupEvents events);
  ~WorkerGroup();  // Kills what still runs.
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  Result<void> start();
  void stop(int signal, Duration grace);
  void kill();
  void forward(int signal);
  // This worker is to die for what it did (its timer expired, it hangs): its end counts as its own
  // failure, and `why` is what the failure says. False: too late, it has ended or is being stopped.
  bool sentence(int local_rank, int signal, const std::string& why);
  // SIGCHLD came: orphans that have ended are reaped.
  void on_child();

  std::map<int, pid_t> pids() const;
  std::string waiting_for() const;
  bool over() const { return machine_.phase() == core::supervision::Phase::Over; }

 private:
  struct Worker {
    std::string program;
    std::string error_file;
    std::unique_ptr<io::CgroupLeaf> leaf;
    std::optional<io::ProcessExit> exit;
    std::int64_t ended_micros = 0;
    Evidence evidence;
    std::string sentence;  // Why we end it; empty: we do not.
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

  io::Loop& loop_;
  WorkerHost& host_;
  WorkersSpec spec_;
  LogRoutes routes_;
  GroupEvents events_;
  core::supervision::Supervision machine_;
  io::Timer deadline_;
  io::Timer progress_;
  io::Timer second_look_;
  std::set<int> traced_;  // Ended, but their tracers have not let go.
  Before before_;
  std::vector<Worker> workers_;
  std::vector<io::Process> processes_;
  std::vector<pid_t> told_guard_;
  std::vector<Survivor> survivors_;
  std::string host_name_;
  // Callbacks of the pump may come when we are gone.
  std::shared_ptr<WorkerGroup*> alive_token_;
};

}  // namespace regroup::runtime
