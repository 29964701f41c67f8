// Where the workers of a node run. An agent decides when a group of workers is started, when and
// how it is stopped, which end is a failure and what follows from it; a backend starts workers,
// hands signals to them, and tells of each end. Local processes are the backend that regroup has.
// Derive from WorkerBackend for another one, such as threads or containers, and give it to the agent
// (AgentOptions::backend): examples/thread_workers.cc.
//
// There is one group at a time: start(), then signals, and finish() when none of its workers is
// left. All calls come on the agent's thread; none of them should block.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "regroup/logs.h"
#include "regroup/result.h"
#include "regroup/workers.h"

namespace regroup {

struct GroupToStart {
  Attempt attempt;                      // The run, which restart it is, and the workers' names.
  std::vector<WorkerCommand> commands;  // By local rank, each with its whole environment.
};

// How a worker ended: with a code, or by a signal.
struct WorkerExit {
  int code = 0;
  int signal = 0;  // 0: by itself, with `code`.
};

// Something that a worker has started and that is alive though all workers have ended with 0.
struct LeftBehind {
  int pid = 0;
  std::string name;
  bool is_away = false;  // It has left the session of its worker, as a daemon does.
};

class WorkerBackend {
 public:
  // To be called once for each worker when it has ended, from any thread, also before start()
  // returns.
  using Ended = std::function<void(int local_rank, WorkerExit exit)>;

  virtual ~WorkerBackend() = default;

  // Starts all workers of the group; if one cannot be started, none is left running.
  virtual Result<void> start(const GroupToStart& group, Ended ended) = 0;
  // To this worker itself. One that has ended is not meant any more.
  virtual void signal(int local_rank, int number) = 0;
  // To every worker, and to all that they have started. SIGTERM asks them to end: those that have
  // not done so when their grace is over are killed.
  virtual void signal_all(int number) = 0;
  // Ends everything at once, by whatever means there are.
  virtual void kill_all() = 0;
  // How many workers are alive, and what they have started with them. When it is 0, and every end
  // was told, the group is over.
  virtual int count_alive() = 0;

  // What follows need not be there.

  // Tells of ends that have come and were not told yet. It is called before a signal is sent, since
  // a worker that had ended by then ended by itself.
  virtual void tell_ends() {}
  // What count_alive() counts, when all workers have ended with 0. Empty: it cannot be told, and all
  // of it is ended.
  virtual std::vector<LeftBehind> left_behind() { return {}; }
  // To those of left_behind() that are not away.
  virtual void signal_stayed(int number) { (void)number; }
  // Those that are away are left running. finish() comes next.
  virtual void let_go() {}
  // The process of a worker, for people to see; 0: it is none.
  virtual int pid(int local_rank) const {
    (void)local_rank;
    return 0;
  }
  // A worker has ended, not well. What there is to know of why may be gone later.
  virtual void note_failure(int local_rank, bool stopped_by_us) {
    (void)local_rank, (void)stopped_by_us;
  }
  // Adds what is known of a failure to what its exit tells: a message, a traceback, evidence.
  virtual void explain(ProcessFailure& failure) { (void)failure; }
  // The group is over; what is alive now cannot be killed. `done` is called once, from any thread,
  // when all output is written.
  virtual void finish(std::function<void()> done) {
    const auto written = std::move(done);
    written();
  }
  // After that: adds survivors, logs, where the workers were.
  virtual void complete(WorkersResult& result) { (void)result; }
  // The agent is done.
  virtual void shut_down() {}
};

}  // namespace regroup
