// The backend that regroup has: workers as processes of this machine, in control groups where there
// are any, with their output in files and on the console, and with evidence of their ends.
//
// Lives on the loop's thread, which starts the processes and must outlive them. The log pump and the
// guard belong to the host, for all groups.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/cgroup/cgroup.h"
#include "io/loop/loop.h"
#include "io/process/process.h"
#include "io/process/process_table.h"
#include "regroup/worker_backend.h"
#include "runtime/evidence/evidence.h"
#include "runtime/workers/worker_host.h"
#include "runtime/workers/worker_inspector.h"

namespace regroup::runtime {

class LocalProcesses final : public WorkerBackend, public WorkerInspector {
 public:
  // The attempt and the commands of `spec` are not looked at: each group brings its own.
  LocalProcesses(io::Loop& loop, WorkerHost& host, WorkersSpec spec,
                 std::shared_ptr<LogsSpecs> logs);
  ~LocalProcesses() override;  // Kills what still runs.
  LocalProcesses(const LocalProcesses&) = delete;
  LocalProcesses& operator=(const LocalProcesses&) = delete;

  Result<void> start(const GroupToStart& group, Ended ended) override;
  void signal(int local_rank, int number) override;
  void signal_all(int number) override;
  void kill_all() override;
  int count_alive() override;
  void tell_ends() override;
  std::vector<LeftBehind> left_behind() override;
  void signal_stayed(int number) override;
  void let_go() override;
  int pid(int local_rank) const override;
  void note_failure(int local_rank, bool stopped_by_us) override;
  void explain(ProcessFailure& failure) override;
  void finish(std::function<void()> done) override;
  void complete(WorkersResult& result) override;

  std::vector<std::optional<core::hang::Sample>> look() override;
  void take_stacks(const StacksOrder& order, std::function<void(const Stacks&)> done) override;
  void give_up_stacks() override;
  void explain_stacks(const std::string& summary) override;
  void forget_stacks() override { stacks_.reset(); }

  // The worker sent a timer request: a sign of life.
  void note_request(int local_rank);
  // SIGCHLD came: orphans that have ended are reaped.
  void reap_orphans();
  // Which processes belong to the group: see io::belonging_to().
  io::Roots roots() const;

 private:
  struct Worker {
    pid_t pid = 0;
    std::string program;
    std::unique_ptr<io::CgroupLeaf> leaf;
    std::optional<io::ProcessExit> exit;
    Evidence evidence;
    std::uint64_t requests = 0;
  };

  void reset(const GroupToStart& group, Ended ended);
  Result<void> make_leaves();
  io::ProcessSpec process_spec(std::size_t rank, const WorkerStreams& streams);
  Result<void> start_processes(std::vector<io::ProcessSpec> specs);
  void look_for_end(int rank);
  void look_again_at(int rank);
  void forget_sessions();
  void forget_group();
  std::vector<pid_t> our_children() const;
  std::vector<io::ProcessInfo> alive() const;
  bool is_away(const io::ProcessInfo& process) const;
  std::string dump_file(std::size_t rank) const;
  void stacks_taken(Stacks stacks);

  io::Loop& loop_;
  WorkerHost& host_;
  WorkersSpec spec_;
  std::shared_ptr<LogsSpecs> logs_;

  // Of the group.
  GroupToStart group_;
  Ended ended_;
  LogRoutes routes_;
  Before before_;
  std::vector<Worker> workers_;
  std::vector<io::Process> processes_;
  std::vector<pid_t> told_guard_;
  std::vector<Survivor> survivors_;
  std::set<int> traced_;  // They have ended, but their tracers still hold them.
  io::Timer second_look_;
  bool is_over_ = true;
  bool leaves_away_ = false;  // Those that left their worker's session outlive the group.

  std::unique_ptr<StackTaker> taker_;
  std::function<void(const Stacks&)> on_stacks_;
  std::optional<Stacks> stacks_;
  io::Timer stacks_limit_;
  // The pump and the taker may call back when we are gone.
  std::shared_ptr<LocalProcesses*> alive_token_;
};

}  // namespace regroup::runtime
