// Decides for one run: which nodes are in the next round, when it is sealed, what each node is told
// when a worker fails or a node is lost, and how many restarts are left.
//
// It holds the run's shared state (core/rendezvous) and changes it with the same decide() and
// apply() as a node that has no coordinator. Because it acts for all its sessions in one place,
// nodes do not compete for the state, and changes are sent to them instead of being polled for.
// Nodes without a session (torchrun's) see and swap the same state through the store:
// state_for_others(), on_swapped().
//
// A pure machine. Its host carries out the effects and brings the time. A change of one node costs
// O(log n); only a seal, a reopened round and the end of a run go over all nodes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/coordinator/effects.h"
#include "core/coordinator/last_round.h"
#include "core/coordinator/messages.h"
#include "core/coordinator/other_nodes.h"
#include "core/coordinator/restart_budget.h"
#include "core/coordinator/restoring.h"
#include "core/coordinator/segments.h"
#include "core/coordinator/silence_watch.h"
#include "core/coordinator/timers.h"
#include "core/hang/council.h"
#include "core/rendezvous/decide.h"
#include "core/rendezvous/describe.h"
#include "core/rendezvous/executor.h"
#include "core/rendezvous/settings.h"
#include "core/rendezvous/state.h"
#include "core/run/run_status.h"

namespace regroup::core::coordinator {

using rendezvous::Now;

class Coordinator {
 public:
  // `present`: the run's state, if nodes without a session have made one before.
  Coordinator(std::string run_id, const RunRules& rules, std::optional<rendezvous::State> present,
              Now now);

  // The first message of a new session; no other may come first.
  void on_hello(SessionId session, Hello hello, Now now, Effects& effects);
  // Any other message. Messages of a session that is not known any more are ignored.
  void on_message(SessionId session, const FromAgent& message, Now now, Effects& effects);
  void on_closed(SessionId session, Now now, Effects& effects);
  // Something came from this session; bytes are enough.
  void heard_from(SessionId session, Now now);

  // To be called when next_deadline() has come; early is fine.
  void on_time(Now now, Effects& effects);
  std::optional<Instant> next_deadline() const;

  // For nodes without a session: the state with the heartbeats of ours brought up to date; and what
  // one of them has made of it.
  const rendezvous::State& state_for_others(Now now);
  void on_swapped(rendezvous::State state, Now now, Effects& effects);

  const rendezvous::State& state() const { return state_; }
  run::RunStatus status(Now now) const;
  bool has_sessions() const { return !sessions_.empty(); }
  bool is_over() const { return state_.closed; }
  // No node is in the run any more, and none has ended it.
  bool is_deserted() const {
    return !state_.closed && nodes_.empty() && state_.participants.empty() &&
           state_.wait_list.empty() && state_.redundancy_list.empty();
  }

 private:
  enum class Doing { Idle, Joining, Running, Done };
  struct Node {
    rendezvous::NodeId id;
    rendezvous::Claim claim;
    std::string role;
    std::int64_t workers = 1;
    std::optional<SessionId> session;  // None: its connection is lost.
    Doing doing = Doing::Idle;
    std::optional<Join> join;  // The last one.
    Sealed sealed;             // The answer to it, while the round runs.
    Instant heard;             // When it last said anything, or its connection was lost.
    std::int64_t arrived = 0;  // Its turn: the order of joins.
  };

  // coordinator.cc: what nodes say.
  Node* node_of(SessionId session);
  void on_join(Node& node, const Join& join, Now now, Effects& effects);
  void on_failed(Node& node, const Failed& failed, Now now, Effects& effects);
  // The first failure of a round: the workers are started again, or the run has failed.
  void judge_failure(const Node& node, const Failed& failed, Now now, Effects& effects);
  void on_done(Node& node, const Done& done, Now now, Effects& effects);
  void on_warn(const Node& node, const Warn& warn, Effects& effects);
  void on_leave(Node& node, const Leave& leave, Now now, Effects& effects);
  bool is_member(const Node& node, const Running& running) const;

  // coordinator_hang.cc: whether the round hangs, and which node is to blame.
  void on_stalled(const Node& node, const Stalled& stalled, Effects& effects);
  void on_where(const Node& node, const Where& where, Effects& effects);
  // The node has no workers in the round any more: those elsewhere wait for them in vain.
  void leave_council(const Node& node, Effects& effects);
  bool hangs_unnamed() const;
  void mark_done(Node& node, Effects& effects);  // Because its workers have succeeded.
  // Its rank in the last round, if it speaks of that one; none: it is ignored.
  std::optional<std::int64_t> seat_of(const Node& node, std::int64_t round) const;
  void tell_running(const FromCoordinator& message, Effects& effects) const;
  hang::Council& council();  // Of the last round.

  // coordinator_losses.cc: which nodes are gone, and what nodes without a session have changed.
  void lose(const std::vector<rendezvous::NodeId>& lost, const std::string& why, Now now,
            Effects& effects);
  void find_lost(Now now, Effects& effects);
  void find_lost_others(Now now, Effects& effects);
  bool has_others() const;

  // coordinator_restoring.cc: what was before our time.
  void learn_past(const Hello& hello, Now now, Effects& effects);
  bool restore(Node& node, const Running& running, Now now, Effects& effects);
  void begin_restored(const Running& running, Now now, Effects& effects);
  void end_hold(Now now, Effects& effects);

  // coordinator_rounds.cc: what follows from a change.
  // A round from before our time is not opened again.
  void skip_past_rounds();
  // Plays the tables for one node until they ask for nothing more.
  void advance(const Node& node, rendezvous::Operation operation, Now now);
  // The same for all that join, in the order of their preference.
  void advance_all_joining(Now now);
  // Members of the last round first, then nodes with the name of a member, then in the order in
  // which they came, then spares.
  Segments::Preference preference(const Node& node) const;
  // For the groups that have changed since: nodes that make up whole segments are let in, or wait
  // for the next round; the others are spares until then.
  void place_segments(Now now);
  Segments::StandingOf standings() const;
  void make_spare(const Node& node, Now now);
  // To be called after every change; `before` is the phase before it.
  void follow_up(const std::string& before, Now now, Effects& effects);
  void seal_if_due(Now now);
  void announce_seal(Now now, Effects& effects);
  // Tells the members of the sealed round, once.
  void stop_round(Stop stop, Now now, Effects& effects);
  Stop stop_for(const Node& node) const;
  std::string dropped_text() const;
  rendezvous::Reading reading(Now now, bool last_call_over) const;
  bool a_member_is_done() const;
  bool is_running() const { return state_.complete && !last_round_.is_stopped(state_.round); }

  // coordinator_end.cc
  void end_run(Stop stop, Now now, Effects& effects);
  void succeed_if_all_are_done(Now now, Effects& effects);
  void mark_closed(Now now);
  // The run was closed, but its workers have not been told to stop.
  bool workers_run_on() const { return end_ && end_->why == Stop::Why::Closed && ran_when_closed_; }
  void fail_after_close(Stop stop, Effects& effects);

  // coordinator_status.cc: what people and waiting nodes are told.
  void tell_progress(Now now, Effects& effects);
  // `of_round`: the part that is the same for all nodes whose groups are not whole; made once.
  Progress progress_of(const Node& node, Instant now, std::optional<std::string>& of_round) const;
  std::string describe_stopping() const;  // Only while a round is being stopped.
  rendezvous::Wait waiting(const rendezvous::NodeId& self, Instant now) const;

  bool has_session(const rendezvous::NodeId& node) const { return nodes_.contains(node); }
  void send(const Node& node, FromCoordinator message, Effects& effects) const;

  const rendezvous::Settings settings_;
  const RunRules rules_;
  rendezvous::State state_;
  std::map<rendezvous::NodeId, Node> nodes_;
  std::map<SessionId, rendezvous::NodeId> sessions_;
  std::int64_t arrivals_ = 0;

  LastRound last_round_;
  RestartBudget budget_;
  Segments segments_;
  Restoring restoring_;
  SilenceWatch silence_;
  OtherNodes others_;
  LastCall last_call_;
  ProgressPace progress_;

  std::optional<std::int64_t> council_of_;  // The round that the council is for.
  hang::Council council_{0};

  rendezvous::NodeId not_done_;  // A member that was not done at the last check whether all are.
  std::string last_verdict_;
  std::optional<Stop> end_;  // Why the run is over, if it did not succeed.
  bool succeeded_ = false;
  bool ran_when_closed_ = false;
};

}  // namespace regroup::core::coordinator
