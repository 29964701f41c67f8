// One node's part in a run: it joins a round, starts its workers, restarts them when they fail (as
// long as the budget lasts) and when the members of the round change (for nothing), waits for the
// others at the end, and leaves.
//
// A pure machine. Its host does what the returned effects say and tells it what came of them; of
// each kind of effect one is under way at most.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/instant.h"
#include "core/agent/order.h"
#include "core/supervision/stop_signals.h"

namespace regroup::core::agent {

using supervision::SignalMeaning;
using supervision::StopSignal;

// The states of the original.
enum class State { Unknown, Init, Healthy, Unhealthy, Stopped, Succeeded, Failed };

std::string_view to_string(State state);  // "HEALTHY", as events and metrics call it.

// What is under way.
enum class Doing {
  Nothing,
  Joining,
  Starting,
  Running,
  Stopping,
  Asking,
  CheckingIn,
  Leaving,
  Finished
};

std::string_view to_string(Doing doing);  // "joining", "checking in": in words for people.

struct Settings {
  int max_restarts = 0;
  int stop_signal = 15;
  Duration grace = 30s;
  // After this node's workers have succeeded, the other nodes are waited for so long,
  Duration exit_limit = 300s;
  // and a coordinator that cannot be reached no longer than this.
  Duration coordinator_limit = 10s;
  // A coordinator says within so long what follows from a failure here; after that this node goes
  // by what it knows.
  Duration decision_limit = 15s;
  // People are told of a failure here together with what follows from it, if that is decided within
  // so long.
  Duration news_limit = 1s;
  // A worker's end that looks like the work of a signal to all processes is not judged before so
  // long: if the signal comes to us as well, the worker was stopped with us. The others are stopped
  // meanwhile.
  Duration signal_wait = 250ms;
};

// How the agent's part ended.
enum class Ending {
  Succeeded,      // All workers of this node ended with 0.
  Failed,         // A worker failed, and the budget is spent; or another node's did, and says so.
  Signalled,      // Somebody told us to stop.
  NotNeeded,      // A spare whose run ended without it.
  CouldNotJoin,   // The rendezvous failed: nobody came, the run is closed, the store is gone.
  CouldNotStart,  // The workers could not be started on this node.
  LeftBehind,     // A worker cannot be killed: this node is not fit to go on.
};

// Leave the round that we are in, if any, and be in the next; agree on the workers' ranks.
struct Join {
  friend bool operator==(const Join&, const Join&) = default;
};
struct Start {
  int restart_count = 0;
  friend bool operator==(const Start&, const Start&) = default;
};
struct Stop {
  int signal = 15;
  Duration grace{};
  friend bool operator==(const Stop&, const Stop&) = default;
};
struct Kill {
  friend bool operator==(const Kill&, const Kill&) = default;
};
// Give up the join that is under way.
struct GiveUpJoin {
  friend bool operator==(const GiveUpJoin&, const GiveUpJoin&) = default;
};
// The first of our workers has failed: the coordinator is to know, before anything else is done
// about it.
struct Report {
  friend bool operator==(const Report&, const Report&) = default;
};
// What follows from the failure of our workers is for the coordinator to decide: it must know of
// it.
struct Ask {
  friend bool operator==(const Ask&, const Ask&) = default;
};
// Tell the others how our workers ended. An order says when all have done so.
struct CheckIn {
  bool succeeded = false;
  friend bool operator==(const CheckIn&, const CheckIn&) = default;
};
// For people to know.
struct Tell {
  enum class What {
    MembersChanged,   // The workers are stopped to join the next round.
    FailedElsewhere,  // The same, because a worker of another node failed.
    RunFailed,        // Another node says so.
    CheckedIn,        // Every node's end is known, or is not waited for any longer.
    Restart,          // It follows from a failure here that was told of before it was decided.
    Nobody,           // Nobody has said what follows from a failure here: `text` says what does.
  };
  What what = What::MembersChanged;
  std::string text = {};
  int restart = 0;  // Of FailedElsewhere and Restart: the number of the restart that follows.
  friend bool operator==(const Tell&, const Tell&) = default;
};
// For people to know: a worker of ours failed, and what follows from it. Once for each
// on_worker_failed(), unless the worker was stopped with us.
struct TellFailure {
  enum class Then {
    Restart,    // All are started again, for the `restart`th time.
    Rejoin,     // All are started again for another reason: it costs no restart.
    End,        // Our workers are not started again.
    Undecided,  // The coordinator has not said yet.
  };
  Then then = Then::Undecided;
  int restart = 0;
  friend bool operator==(const TellFailure&, const TellFailure&) = default;
};
// Take this node off the lists; `close`: end the run for everybody.
struct Leave {
  bool close = false;
  friend bool operator==(const Leave&, const Leave&) = default;
};
struct Finish {
  Ending ending = Ending::Succeeded;
  friend bool operator==(const Finish&, const Finish&) = default;
};
using Effect = std::variant<Join, Start, Stop, Kill, GiveUpJoin, Report, Ask, CheckIn, Tell,
                            TellFailure, Leave, Finish>;
using Effects = std::vector<Effect>;

// How a group of workers ended.
enum class GroupEnd { Succeeded, Failed, Stopped, Survived };

// Why a join came to nothing.
enum class JoinFailure { Failed, NotNeeded, GivenUp, RunFailed };

class Agent {
 public:
  explicit Agent(const Settings& settings);

  Effects begin();
  // `restart_count`: of the whole run, from a coordinator, who then decides about failures; empty:
  // there is none, and this node counts its own.
  // `max_restarts`: of the run, where the coordinator has told it; empty: this node's own.
  Effects on_joined(std::optional<int> restart_count = {}, std::optional<int> max_restarts = {});
  // `end`: why the run is over, where that is the reason.
  Effects on_join_failed(JoinFailure why, const Order& end = {});
  void on_started();
  Effects on_start_failed();
  // The first of them, by itself. From now on the group's end is its own doing.
  // `looks_signalled`: as if by a signal that came to all processes (supervision::looks_signalled).
  Effects on_worker_failed(Instant now, bool looks_signalled = false);
  Effects on_group_over(GroupEnd end, Instant now);
  // What this node is to do now; it stays in force until the next one, or the next join.
  Effects on_order(Order order);
  // Whether the coordinator can be reached. Workers run on without it.
  void on_reach(bool reachable, Instant now);
  Effects on_left();
  // The first asks, the next one does not ask any more.
  Effects on_signal(const StopSignal& signal, Instant now);
  // What on_signal() would make of it; a question.
  SignalMeaning meaning(const StopSignal& signal, Instant now) const {
    return signals_.meaning(signal, now);
  }
  // next_deadline() has come.
  Effects on_time(Instant now);
  std::optional<Instant> next_deadline() const;

  State state() const { return state_; }
  Doing doing() const { return doing_; }
  int max_restarts() const { return settings_.max_restarts; }
  int restart_count() const { return told_count_.value_or(settings_.max_restarts - remaining_); }
  int remaining_restarts() const { return std::max(settings_.max_restarts - restart_count(), 0); }
  int signal() const { return signals_.first(); }  // 0: none.
  // A worker of the last start ended by a signal that came to us, too: it has not failed.
  bool stopped_with_us() const { return stopped_with_us_; }
  bool has_workers() const { return doing_ == Doing::Running || doing_ == Doing::Stopping; }
  Ending ending() const { return ending_; }  // Once it leaves; before that it means nothing.
  // Why the run is over for good, if it was not for a worker of ours; empty: it is not.
  // `is_failure`: a worker of another node has failed.
  struct Verdict {
    std::string text;
    bool is_failure = false;
  };
  const Verdict& verdict() const { return verdict_; }
  // Why the run is not started again, if it is not for want of restarts.
  const std::string& end_note() const { return end_note_; }

 private:
  // What a stop is for.
  enum class AfterStop { Rejoin, End };
  // A failure of ours that may be none.
  struct Hold {
    Instant until;                // It is judged then.
    std::optional<GroupEnd> end;  // The group's, if it came meanwhile.
  };

  Effects join();
  Effects judge_failure(Instant now);
  Effects judge_end(GroupEnd end, Instant now);
  Effects end_hold(Instant now);
  void drop_hold();
  Effects leave(Ending ending, bool close);
  Effects ask(Instant now);
  Effects check_in(Ending ending, Instant now);
  Effects fail();
  // Acts on the order that is in force, if it means something now.
  Effects follow_order();
  Effects follow_while_running();
  Effects follow_at_the_end();
  Effects checked_in(std::string text, const Effects& then);
  // Why the order in force was given; nothing, if people know, or are told of our own failure.
  Effects tell_order();
  // Nothing, if people know already what follows from the failure of our worker.
  Effects tell_failure(TellFailure::Then then, int restart = 0);
  Effects tell_decision();
  Effects tell_restart(int restart);
  void note_end(const Order& order);

  Settings settings_;
  State state_ = State::Init;
  Doing doing_ = Doing::Nothing;
  AfterStop then_ = AfterStop::End;
  Ending ending_ = Ending::Succeeded;
  bool close_ = false;
  bool failed_ = false;
  int remaining_;
  std::optional<int> told_count_;  // By a coordinator.
  supervision::StopSignals signals_;
  std::optional<Hold> hold_;
  bool stopped_with_us_ = false;
  Order order_;
  bool order_is_told_ = false;
  std::optional<Instant> wait_until_;       // For a decision, or for the others at the end.
  std::optional<Instant> untold_until_;     // A failure here: what follows is to be decided.
  bool undecided_ = false;                  // A failure here was told of without what follows.
  std::optional<Instant> unreached_since_;  // The coordinator.
  Verdict verdict_;
  std::string end_note_;
};

}  // namespace regroup::core::agent
