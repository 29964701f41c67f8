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

namespace regroup::core::agent {

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
// What comes of our failure is for the coordinator to decide: wait for its word.
struct Ask {
  friend bool operator==(const Ask&, const Ask&) = default;
};
// Tell the others how we ended, and, after a success, wait until all have said so.
struct CheckIn {
  bool succeeded = false;
  friend bool operator==(const CheckIn&, const CheckIn&) = default;
};
// Do not wait for them, or for the word, any longer.
struct GiveUpCheckIn {
  friend bool operator==(const GiveUpCheckIn&, const GiveUpCheckIn&) = default;
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
using Effect =
    std::variant<Join, Start, Stop, Kill, GiveUpJoin, Ask, CheckIn, GiveUpCheckIn, Leave, Finish>;
using Effects = std::vector<Effect>;

// How a group of workers ended.
enum class GroupEnd { Succeeded, Failed, Stopped, Survived };

// Why a join came to nothing.
enum class JoinFailure { Failed, NotNeeded, GivenUp, RunFailed };

// What came of waiting for the others at the end.
enum class CheckedIn {
  Over,      // All are done, or are not waited for any longer.
  Restart,   // A worker failed elsewhere, or a node was lost: all join again.
  RunFailed  // A worker failed elsewhere, for good.
};

class Agent {
 public:
  explicit Agent(const Settings& settings);

  Effects begin();
  // `restart_count`: of the whole run, from a coordinator, who then decides about failures; empty:
  // there is none, and this node counts its own.
  Effects on_joined(std::optional<int> restart_count = {});
  Effects on_join_failed(JoinFailure why);
  void on_started();
  Effects on_start_failed();
  // The first of them, by itself. From now on the group's end is its own doing.
  void on_worker_failed();
  Effects on_group_over(GroupEnd end);
  // Nodes want to come in, a member is gone, or we were dropped.
  // `restart_count`: of what comes next, if a coordinator has said so.
  Effects on_members_changed(std::optional<int> restart_count = {});
  // Another node says that the run has failed for good.
  Effects on_run_failed();
  // `restart_count` as above; empty: there is no restart.
  Effects on_decided(std::optional<int> restart_count);
  Effects on_checked_in(CheckedIn how = CheckedIn::Over, std::optional<int> restart_count = {});
  Effects on_left();
  // The first asks, the next one does not ask any more.
  Effects on_signal(int number);

  State state() const { return state_; }
  Doing doing() const { return doing_; }
  int restart_count() const { return told_count_.value_or(settings_.max_restarts - remaining_); }
  int remaining_restarts() const { return std::max(settings_.max_restarts - restart_count(), 0); }
  int signal() const { return signal_; }
  Ending ending() const { return ending_; }  // Once it leaves; before that it means nothing.

 private:
  // What a stop is for.
  enum class Then { Rejoin, End };

  Effects join();
  Effects leave(Ending ending, bool close);

  Settings settings_;
  State state_ = State::Init;
  Doing doing_ = Doing::Nothing;
  Then then_ = Then::End;
  Ending ending_ = Ending::Succeeded;
  bool close_ = false;
  bool failed_ = false;
  int remaining_;
  std::optional<int> told_count_;  // By a coordinator.
  int signal_ = 0;
};

}  // namespace regroup::core::agent
