// Decides for one run: who is in the next round, when it is sealed, what is told to whom when a
// worker fails or a node is lost, and how many restarts are left.
//
// It holds the run's shared state (core/rendezvous) and changes it by the same decide() and apply()
// as a node that has no coordinator; only that it acts for all its sessions in one place, so
// nothing is contended for, and what has changed is told instead of looked for. Nodes without a
// session (torchrun's) see and swap the same state through the store: state_for_others(),
// on_swapped().
//
// A pure machine. Its host carries out the effects and brings the time. A change of one node costs
// O(log n); only a seal, a reopened round and the end of a run go over all nodes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/id.h"
#include "base/instant.h"
#include "core/coordinator/messages.h"
#include "core/rendezvous/decide.h"
#include "core/rendezvous/describe.h"
#include "core/rendezvous/executor.h"
#include "core/rendezvous/liveness.h"
#include "core/rendezvous/settings.h"
#include "core/rendezvous/state.h"

namespace regroup::core::coordinator {

// One connection. A node that comes back after a lost one has another.
using SessionId = Id<struct SessionTag>;

struct Send {
  SessionId to;
  FromCoordinator message;
};
// After what was sent to it.
struct CloseSession {
  SessionId session;
  std::string why;
};
// The run has left this phase: whoever rests in it without a session should wake.
struct LeftPhase {
  std::string phase;
};
using Effect = std::variant<Send, CloseSession, LeftPhase>;
using Effects = std::vector<Effect>;

void add(Effects& effects, Effect effect);

using rendezvous::Now;

// How a run stands, for people.
struct NodeStatus {
  enum class Place { Idle, Member, Done, Joined, Waiting, Spare };
  std::string name;
  std::string address;
  Place place = Place::Idle;
  std::optional<std::int64_t> rank = {};
  std::int64_t workers = 0;
  bool connected = true;    // False: its connection is lost, and it may come back.
  bool has_session = true;  // False: it is torchrun's.
  Duration silent_for{};
  std::string group = {};
};
std::string_view word_of(NodeStatus::Place place);
struct RunStatus {
  std::string run_id;
  std::int64_t round = 0;
  bool sealed = false;
  bool closed = false;
  bool succeeded = false;
  Rules rules;
  std::int64_t restarts = 0;
  std::string awaited;  // What is waited for, in one sentence; empty: nothing.
  std::string last_verdict;
  std::vector<NodeStatus> nodes;  // Members by rank, then the others by name.
};

// Why no round could ever be sealed by these rules. Empty: one could.
std::string why_not(const Rules& rules);

class Coordinator {
 public:
  // `present`: the run's state, if nodes without a session have made one before.
  Coordinator(std::string run_id, const Rules& rules, std::optional<rendezvous::State> present,
              Now now);

  // Of a new session, and the only message it may begin with.
  void on_hello(SessionId session, Hello hello, Now now, Effects& effects);
  // Anything else. A session that is not known any more is not heard.
  void on_message(SessionId session, const FromAgent& message, Now now, Effects& effects);
  void on_closed(SessionId session, Now now, Effects& effects);
  // Something came from it; bytes are enough.
  void heard_from(SessionId session, Now now);

  // To be called when next_deadline() has come; early is fine.
  void on_time(Now now, Effects& effects);
  std::optional<Instant> next_deadline() const;

  // For nodes without a session: the state with the heartbeats of ours brought up to date; and what
  // one of them has made of it.
  const rendezvous::State& state_for_others(Now now);
  void on_swapped(rendezvous::State state, Now now, Effects& effects);

  const rendezvous::State& state() const { return state_; }
  // status.cc
  RunStatus status(Now now) const;
  bool has_sessions() const { return !sessions_.empty(); }
  bool is_over() const { return state_.closed; }
  // Nobody is in it any more, and nobody has ended it.
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
    Sealed sealed;             // What came of it, while it runs.
    Instant heard;             // When it last said anything, or its connection was lost.
    std::int64_t arrived = 0;  // Order of its join.
    std::int64_t max_restarts = 0;
    std::int64_t restarts = 0;  // Of its own, where each node counts.
  };

  // Nodes near each other.
  struct Group {
    std::set<rendezvous::NodeId> nodes = {};
    std::set<rendezvous::NodeId> loose = {};     // Want to be in and are not; and some who do not.
    std::vector<rendezvous::NodeId> fresh = {};  // Of them, who has come since it was placed.
    bool has_lost = false;                       // One of its nodes, since it was placed last.
  };

  // coordinator.cc: what nodes say.
  Node* node_of(SessionId session);
  void on_join(Node& node, const Join& join, Now now, Effects& effects);
  void on_failed(Node& node, const Failed& failed, Now now, Effects& effects);
  void spend(Node& node, const Failed& failed, Now now, Effects& effects);
  void on_done(Node& node, const Done& done, Now now, Effects& effects);
  void on_warn(const Node& node, const Warn& warn, Effects& effects);
  void on_leave(Node& node, const Leave& leave, Now now, Effects& effects);
  bool is_member(const Node& node, const Running& running) const;
  std::int64_t restart_count(const Node& node) const {
    return rules_.per_node ? node.restarts : restarts_;
  }
  // Whether the workers are started again. `note`: why not, if it is not for want of restarts.
  bool may_restart(const Node& node, const Failure& failure, Now now, std::string& note);
  // A node that was the first to fail too often: why it is not let in. Empty: it is.
  std::string why_struck(const std::string& name) const;
  void lose(const std::vector<rendezvous::NodeId>& lost, const std::string& why, Now now,
            Effects& effects);
  void find_lost(Now now, Effects& effects);
  void note_time(Now now);
  Duration pardon(Now now) const;
  // The run was closed, and nobody has told its workers to stop.
  bool runs_on() const { return end_ && end_->why == Stop::Why::Closed && ran_when_closed_; }
  void fail_after_close(Stop stop, Effects& effects);
  void sweep_others(Now now, Effects& effects);

  // restoring.cc: what was before our time.
  void learn(Node& node, const Hello& hello, Now now, Effects& effects);
  bool restore(Node& node, const Running& running, Now now, Effects& effects);
  void begin_restored(const Running& running, Now now, Effects& effects);
  bool all_have_returned() const;
  void end_hold(Now now, Effects& effects);

  // segments.cc: only whole groups are let in.
  bool has_segments() const { return rules_.segment > 0; }
  // Of the groups that have changed since: who makes whole ones is let in, or waits for the next
  // round; the others are spares until then.
  void place_groups(Now now);
  void joins_group(const Node& node);
  std::string why_not_grouped(const Hello& hello) const;  // Empty: it may come.
  bool drop_the_odd(Group& group, Now now);
  std::vector<const Node*> take_loose(Group& group) const;
  bool is_loose(const Node& node) const {
    return node.doing == Doing::Joining && !state_.participants.contains(node.id);
  }
  void make_spare(const Node& node, Now now);
  std::int64_t here(const std::string& group) const;  // Nodes of it that are in, or want to be.
  std::string broken_groups() const;
  // `of_round`: the part that is the same for all whose groups are not whole; made once.
  Progress progress_of(const Node& node, Instant now, std::optional<std::string>& of_round) const;

  // rounds.cc: what follows.
  // A round that was before our time is not opened again.
  void raise_round();
  // Plays the tables for one node until they want nothing more.
  void settle(const Node& node, rendezvous::Operation operation, Now now);
  // Returning members first, then who came first, then spares.
  using Preference = std::pair<int, std::int64_t>;
  Preference preference(const Node& node) const;
  void settle_all_joining(Now now);
  // After every change; `before` is the phase that was.
  void follow(const std::string& before, Now now, Effects& effects);
  void seal_if_due(Now now);
  void announce_seal(Now now, Effects& effects);
  // Tells the members of the sealed round, once.
  void stop_round(Stop stop, Now now, Effects& effects);
  Stop stop_for(const Node& node) const;
  void end_run(Stop stop, Now now, Effects& effects);
  void succeed_if_all_are_done(Now now, Effects& effects);
  void tell_progress(Now now, Effects& effects);
  std::string dropped_text() const;

  rendezvous::Reading reading(Now now, bool last_call_over) const;
  rendezvous::Wait waiting(const rendezvous::NodeId& self, Instant now) const;
  std::optional<Instant> last_call_end() const;
  bool is_running() const { return state_.complete && stopped_ != state_.round; }
  bool has_session(const rendezvous::NodeId& node) const { return nodes_.contains(node); }
  bool has_others() const;
  void send(const Node& node, FromCoordinator message, Effects& effects) const;
  void look_by(Instant at);

  const rendezvous::Settings settings_;
  const Rules rules_;
  rendezvous::State state_;
  rendezvous::Liveness liveness_;  // Of nodes without a session.
  std::map<rendezvous::NodeId, Node> nodes_;
  std::map<SessionId, rendezvous::NodeId> sessions_;
  std::map<std::string, Group> groups_;
  std::set<std::string> changed_groups_;  // To be placed.

  // The last round that was sealed.
  std::optional<std::int64_t> announced_;
  std::int64_t world_size_ = 0;
  std::vector<std::string> names_;        // Of its members,
  std::set<std::string> last_names_;      // the same.
  std::set<rendezvous::NodeId> members_;  // Of it, as it was sealed.
  std::set<rendezvous::NodeId> awaited_;  // Of them, who may come back.
  std::optional<std::int64_t> stopped_;   // It, once it was told to stop,
  Stop stop_;                             // and why.

  // Of what was before our time. Agents come back within as long as a silent one has; until then
  // nobody is let in, lest a round begin beside the workers of another.
  const Instant young_until_;
  std::set<rendezvous::NodeId> seen_;  // By then.
  std::optional<Instant> hold_until_;
  std::optional<std::pair<rendezvous::NodeId, Failed>> failed_in_hold_;  // The first.
  bool has_sealed_ = false;          // A round in our time: what was before is past.
  std::int64_t next_round_ = 0;      // At the least.
  std::set<std::int64_t> restored_;  // Ranks whose workers run, or are being stopped.
  struct Returned {
    std::int64_t round = -1;  // The latest that anybody was in.
    std::int64_t world_size = 0;
    std::set<std::int64_t> ranks;  // Of those who have come back.
  };
  Returned returned_;

  std::int64_t restarts_ = 0;
  std::deque<Instant> restarted_;                // When; as many as the window may hold.
  std::int64_t quick_failures_ = 0;              // In a row.
  std::int64_t changes_ = 0;                     // Of members.
  std::map<std::string, std::int64_t> strikes_;  // By name.
  Instant sealed_at_;
  std::string last_verdict_;
  rendezvous::NodeId not_done_;  // A member, when it was last looked whether all are.
  std::optional<Stop> end_;      // Why the run is over, if it did not succeed.
  bool succeeded_ = false;
  bool ran_when_closed_ = false;

  std::int64_t arrivals_ = 0;
  std::optional<std::pair<rendezvous::Stamp, Instant>> last_call_;  // As it was seen first.
  std::optional<Instant> look_at_;  // Before that nobody can have gone silent.
  std::optional<Instant> sweep_at_;
  std::optional<Instant> tell_at_;
  Instant told_;
  Instant last_turn_;
  Instant lenient_until_;
  Instant refreshed_;  // The heartbeats that others see.
};

}  // namespace regroup::core::coordinator
