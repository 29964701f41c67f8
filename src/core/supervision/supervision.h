// The life of a group of workers: they run, one of them fails, the others are stopped; or all
// succeed; or a stop is ordered. A stop is a signal, a grace, SIGKILL, and a wait that ends.
//
// A pure machine. It starts and signals no process: its host does what the returned effects say,
// and tells it what happened. Everything that a worker left behind (a child in another session, a
// background process of a leader that has ended) counts: the group is over when none of its
// processes is alive.
//
//   starting ─▶ running ─▶ stopping ─▶ killing ─▶ over
//                   ├── all ended, nothing left ──▶ over
//                   └── all succeeded, but processes are left ─▶ lingering ─▶ stopping, or over
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/instant.h"
#include "core/supervision/leftovers.h"

namespace regroup::core::supervision {

enum class Phase { Starting, Running, Lingering, Stopping, Killing, Over };

struct Exit {
  int code = 0;
  int signal = 0;  // Not 0: killed by it.
  bool clean() const { return code == 0 && signal == 0; }
  friend bool operator==(const Exit&, const Exit&) = default;
};

enum class End {
  None,       // Still runs, or was never started.
  Succeeded,  // Ended with 0 by itself.
  Failed,     // Ended otherwise, by itself.
  Stopped,    // Ended after we had signalled it.
  Survived,   // Could not be killed in time: in a system call that does not return, most likely.
};

struct WorkerOutcome {
  End end = End::None;
  Exit exit;               // Meaningless for None and Survived.
  Instant at;              // When we heard of it.
  int signalled = 0;       // The last signal that we had sent it before; 0: none.
  int order = -1;          // 0 for the first that ended, and so on.
  bool condemned = false;  // Its end counts as its own failure, however it came about.
};

struct Settings {
  int workers = 1;
  int stop_signal = kSigTerm;  // For the others after a failure, and for what is left at the end.
  Duration grace = 30s;        // Between the signal and SIGKILL; zero: SIGKILL at once.
  Duration kill_wait = 10s;    // After SIGKILL, before we give up.
  // Of those that left their worker's session, once all workers have succeeded.
  AwayRule away = AwayRule::Wait;
  Duration away_wait = 300s;
};

// To everything of every worker that is still there.
struct SignalAll {
  int number = kSigTerm;
  friend bool operator==(const SignalAll&, const SignalAll&) = default;
};
// SIGKILL to everything, by every means there is.
struct KillAll {
  friend bool operator==(const KillAll&, const KillAll&) = default;
};
// SIGKILL to this one: it was condemned, and has not ended after its signal.
struct KillWorker {
  int worker = 0;
  friend bool operator==(const KillWorker&, const KillWorker&) = default;
};
// Count what is still alive, and report it with on_count().
struct CountAlive {
  friend bool operator==(const CountAlive&, const CountAlive&) = default;
};
// All workers have succeeded, and something of theirs is alive: say what, with on_left().
struct LookAtLeft {
  friend bool operator==(const LookAtLeft&, const LookAtLeft&) = default;
};
// To what is left and is still in the session of its worker.
struct SignalStayed {
  int number = kSigTerm;
  friend bool operator==(const SignalStayed&, const SignalStayed&) = default;
};
// All workers have succeeded. What is left of theirs may take long; nobody else need wait for it.
struct Succeeded {
  friend bool operator==(const Succeeded&, const Succeeded&) = default;
};
// What is alive now is left running.
struct LetGo {
  friend bool operator==(const LetGo&, const LetGo&) = default;
};
// A line for people.
struct Tell {
  std::string text;
  friend bool operator==(const Tell&, const Tell&) = default;
};
// The outcomes are final.
struct GroupOver {
  friend bool operator==(const GroupOver&, const GroupOver&) = default;
};
using Effect = std::variant<SignalAll, KillAll, KillWorker, CountAlive, LookAtLeft, SignalStayed,
                            Succeeded, LetGo, Tell, GroupOver>;
using Effects = std::vector<Effect>;

class Supervision {
 public:
  explicit Supervision(const Settings& settings);

  // All of them run. (If one cannot be started, its host starts none, and needs no machine.)
  void on_started();
  // In the order in which the kernel told.
  Effects on_exit(int worker, const Exit& exit, Instant now);
  // SignalAll or KillAll is about to be done. A worker that has ended by now ended by itself, so
  // its end must be reported first.
  void on_signalled(int number);
  // We end this worker for what it did (its timer expired, it hangs): its end counts as its
  // failure, however it ends, and it gets no more than the grace. False: too late, it has ended or
  // all workers are being stopped.
  bool condemn(int worker, int signal, Instant now);
  // An ordered signal was sent later by this much, so the grace ends later too.
  void postpone(Duration by);
  // How many of our processes are alive, workers included. CountAlive asks for it; it may also come
  // unasked.
  Effects on_count(int alive, Instant now);
  // What of ours is alive, as LookAtLeft asks for it. Empty: nobody can say.
  Effects on_left(const std::vector<Left>& left, Instant now);
  // The group is not needed any more: those that AwayRule::Leave is for may be left.
  Effects let_go(Instant now);
  // next_deadline() has come.
  Effects on_deadline(Instant now);

  // Stops all workers. During a stop, a shorter grace counts, a longer one does not.
  Effects stop(int number, Duration grace, Instant now);
  // At once, without grace.
  Effects kill(Instant now);

  std::optional<Instant> next_deadline() const;

  Phase phase() const { return phase_; }
  const std::vector<WorkerOutcome>& workers() const { return workers_; }
  // The worker that failed first by itself. Empty: none did.
  std::optional<int> first_failure() const { return first_failure_; }
  bool succeeded() const;  // All workers ended with 0 by themselves.
  int running() const { return running_; }

  // One sentence, for people: "3 of 8 workers still run (1, 4-5), killed in 12 s".
  std::string waiting_for(Instant now) const;

 private:
  Effects begin_stop(int number, Duration grace, Instant now);
  Effects begin_kill(Instant now);
  Effects finish();

  Settings settings_;
  Phase phase_ = Phase::Starting;
  std::vector<WorkerOutcome> workers_;
  int running_ = 0;
  int ended_ = 0;
  int left_ = 0;                        // Processes that were alive at the last look.
  std::optional<Leftovers> leftovers_;  // While lingering.
  bool may_go_ = false;
  std::optional<int> first_failure_;
  std::optional<Instant> deadline_;   // Of the grace, or of the wait after SIGKILL.
  std::optional<Instant> execution_;  // A condemned worker that is alive then is killed.
  bool executed_ = false;             // That was done; the next time, all are killed.
  // Set while we wait for processes whose end is not reported to us.
  std::optional<Instant> next_look_;
  Duration look_pause_{};
};

}  // namespace regroup::core::supervision
