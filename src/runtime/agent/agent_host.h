// Plays core/agent on a loop: the rounds of its run and the workers of each live there, too.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/agent/agent.h"
#include "io/loop/loop.h"
#include "regroup/agent.h"
#include "runtime/agent/agent_records.h"
#include "runtime/evidence/stuck_workers.h"
#include "runtime/health/health_pages.h"
#include "runtime/rounds/rounds.h"
#include "runtime/watchdog/watchdog_host.h"
#include "runtime/watchdog/worker_heartbeats.h"
#include "runtime/workers/local_processes.h"
#include "runtime/workers/worker_group.h"
#include "runtime/workers/worker_host.h"

namespace regroup::runtime {

// Lives on the loop's thread, which starts the workers. Stops the loop when its part is over.
class AgentHost {
 public:
  using MakeRounds = std::function<std::unique_ptr<Rounds>(RoundEvents events)>;
  // `make_rounds`: where the rounds come from; empty: from where the options say.
  AgentHost(io::Loop& loop, WorkerHost& host, AgentOptions options,
            const MakeRounds& make_rounds = {});

  // Before begin(), if the options ask for it.
  Result<void> open_watchdog();
  void begin();
  // `deliberate`: no other way leads here for the same request, so the next one counts at once.
  void on_signal(const io::SignalEvent& event, bool deliberate = false);
  void forward(int signal);
  void share(const io::SignalEvent& event);
  void on_child();

  RunResult take_result();

  // How this node is doing now; what on_change() is given is called when that has changed.
  HealthSnapshot health() const;
  WorkerState state() const;
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }

 private:
  RoundEvents round_events();
  void play(const core::agent::Effects& effects);
  void arm();
  void join();
  void joined(JoinedRound round);
  void join_failed(const JoinFailed& failed);
  void warned(int signal, const std::string& node);
  void reached(const std::string& trouble);
  void start(int restart_count);
  void heed_signal_that_waits();
  Result<void> start_group(int restart_count);
  void stop_group(int signal, Duration grace);
  void worker_failed(const ProcessFailure& failure);
  void group_succeeded(WorkersResult result);
  void group_over(WorkersResult result);
  void workers_are_done(WorkersResult result);
  void linger_is_over(WorkersResult result);
  bool expired(const Expiry& expiry);
  void report(const ProcessFailure& failure);
  void ask();
  void say(const core::agent::Tell& told);
  void take_verdict();
  void forget_cause();
  void end_watchdog();
  void check_in(bool succeeded);
  void finish(core::agent::Ending ending);
  void tell(AgentEvent::What what) const;

  io::Loop& loop_;
  WorkerHost& host_;
  AgentOptions options_;
  std::unique_ptr<LocalProcesses> local_;  // Null: the workers run elsewhere.
  Backend backend_;
  core::agent::Agent machine_;
  AgentRecords records_;
  std::unique_ptr<Rounds> rounds_;
  io::Timer deadline_;       // Of the machine.
  io::Timer check_in_slow_;  // The other nodes take their time.
  Instant check_in_began_{};
  std::optional<JoinedRound> round_;
  std::unique_ptr<WorkerGroup> group_;
  std::unique_ptr<StuckWorkers> stuck_;
  std::unique_ptr<WatchdogHost> watchdog_;        // May be null.
  std::unique_ptr<WorkerHeartbeats> heartbeats_;  // With the watchdog.
  RunResult result_;
  // The workers of the group have succeeded, and the machine knows. What they left behind still
  // runs: the next start, and our end, wait for it, and nobody else does.
  bool lingers_ = false;
  bool cut_short_ = false;                           // By a signal.
  std::optional<int> start_after_;                   // With this restart count.
  std::optional<core::agent::Ending> finish_after_;  // With this ending.
  int interrupted_start_ = 0;  // The signal that did, until the loop tells of it.
  bool warned_ = false;
  bool watchdog_ended_ = false;
  bool reported_ = false;          // The failure of this start's first worker.
  ProcessFailure untold_failure_;  // The same, until the machine says what follows from it.

  // For health().
  std::function<void()> changed_;
  HealthSnapshot health_;  // What happens is counted here; health() adds how things stand.
  std::string waiting_;    // While joining: for what.
};

}  // namespace regroup::runtime
