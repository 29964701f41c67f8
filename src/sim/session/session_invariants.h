// What must be true of a run with a coordinator at every step. What happens is
// told here; the first violation is kept, in words.
//
// A "life" is that of one coordinator: from the start of its host to its death.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/messages.h"
#include "sim/session/session_plan.h"

namespace regroup::sim {

// How one node stands with the coordinator of this life, in truth.
struct SessionView {
  core::rendezvous::NodeId id;
  std::int64_t workers = 1;
  std::optional<std::int64_t> runs = {};    // Workers of this round are there.
  bool connected = false;                   // A session that both ends believe in, and that works.
  std::optional<Duration> closed_for = {};  // Its session of this life was seen closed.
  bool awaited = false;  // It lost its session only by the host's death, and is on its way back.
};

std::string round_text(std::int64_t round);  // "round 3".

// Two clocks may differ by so much over the times that are compared here.
constexpr Duration drifted(Duration time) { return time - time / 500; }

class SessionInvariants {
 public:
  SessionInvariants(const SessionPlan& plan) : plan_(plan) {}

  const std::optional<std::string>& violation() const { return violation_; }
  void violated(std::string what);

  void life_began(Instant now);
  // It was told of something that was before its time, or will be told of it.
  void introduced(const core::coordinator::Hello& hello, const SessionView& node, Instant now);
  // What the coordinator says, in the order of its effects, and the end of one event's effects.
  void told(std::int32_t node, const core::rendezvous::NodeId& id,
            const core::coordinator::FromCoordinator& message, Instant now);
  void said_all(const std::vector<SessionView>& nodes, const core::rendezvous::State& state,
                Instant now);
  // A session was closed for its silence; `trouble`: since when all has been well with it.
  void declared_lost(const core::rendezvous::NodeId& id, Duration well_for);

  // What has reached the coordinator, except hellos.
  void said(const core::rendezvous::NodeId& id, const core::coordinator::FromAgent& message);
  // A node has left, or its connection is lost, and the coordinator knows.
  void gone(const core::rendezvous::NodeId& id);
  // The coordinator has closed the only session of this node.
  void closed(const core::rendezvous::NodeId& id);
  // A round of nodes without a session only was sealed, or one of these has left its round.
  void others_sealed(std::int64_t round, const std::vector<SessionView>& nodes, Instant now);
  void other_left(const core::rendezvous::NodeId& id, std::int64_t round);
  // What has reached a node.
  void heard(const core::rendezvous::NodeId& id, const core::coordinator::FromCoordinator& message);
  void failed(const core::rendezvous::NodeId& id, std::int64_t round, const std::string& text);
  void workers_started(const SessionView& node, std::int64_t round);

  std::int64_t seals() const { return seals_; }

 private:
  struct Seat {
    core::rendezvous::NodeId id;
    core::coordinator::Sealed sealed;
  };
  void told_sealed(const core::rendezvous::NodeId& id, const core::coordinator::Sealed& sealed);
  void told_stop(const core::rendezvous::NodeId& id, const core::coordinator::Stop& stop,
                 Instant now);
  void check_verdict(const core::coordinator::Stop& stop);
  void check_budget(const core::coordinator::Stop& stop, Instant now);
  void check_count(std::int64_t restart_count);
  void said_failed(std::int64_t round);
  void check_reason(const core::coordinator::Stop& stop);
  bool has_reason(std::int64_t round) const;
  bool is_missed(const core::rendezvous::NodeId& member, std::int64_t round) const;
  void check_broken(const std::vector<SessionView>& nodes);
  bool is_broken_without(const core::rendezvous::NodeId& id, std::int64_t round) const;
  void check_seal(const std::vector<SessionView>& nodes, const core::rendezvous::State& state,
                  Instant now);
  void check_world(const std::vector<SessionView>& nodes);
  void check_groups(const std::vector<const Seat*>& by_rank);
  void check_seats(const core::rendezvous::State& state);
  void check_old_workers(const std::vector<SessionView>& nodes, std::int64_t round, Instant now);

  const SessionPlan& plan_;
  std::optional<std::string> violation_;

  // Of this life.
  std::int64_t life_ = 0;
  Instant began_;
  std::optional<Instant> first_hello_;
  bool has_history_ = false;            // A node knows of an earlier life.
  std::optional<std::int64_t> held_;    // The latest round that it was told of,
  std::optional<std::int64_t> sealed_;  // and the latest that it sealed.
  std::map<std::int64_t, core::coordinator::Stop> stopped_;  // Rounds and the word about their end.
  std::set<core::rendezvous::NodeId> heard_;
  std::set<core::rendezvous::NodeId> lost_;  // With good reason, and not in a round since.
  std::map<std::int64_t, std::set<core::rendezvous::NodeId>> gone_;  // Of each round.
  std::map<std::pair<std::int64_t, std::int64_t>, core::rendezvous::NodeId>
      seats_;                                    // Named by hellos.
  std::map<std::int64_t, std::int64_t> worlds_;  // In which life a round was sealed.
  std::map<core::rendezvous::NodeId, core::coordinator::Sealed> told_;
  std::optional<std::int64_t> running_;  // What the last hello said.
  std::int64_t restarts_ = 0;            // The highest number that was told.
  // No number is above this one: what nodes knew of the time before, and each round since of which
  // a failure was reported before it was stopped for another reason.
  std::int64_t most_restarts_ = 0;
  std::set<std::int64_t> reported_;
  std::set<std::int64_t> failed_;   // Rounds that were stopped for a failure,
  std::set<std::int64_t> changed_;  // or because their members change.
  std::int64_t member_changes_ = 0;
  std::deque<Instant> within_window_;              // When failures have stopped rounds.
  std::vector<core::coordinator::Stop> stopping_;  // By the effects that are being told.
  // For the reasons of stops: which nodes have a session, which of them want to be in the next
  // round, whose part in a round is done, and which have brought a round from an earlier life.
  std::set<core::rendezvous::NodeId> present_;
  std::set<core::rendezvous::NodeId> joining_;
  std::map<core::rendezvous::NodeId, std::uint64_t> joins_;  // The number of the last join.
  std::set<std::pair<core::rendezvous::NodeId, std::int64_t>> done_;
  struct Restored {
    std::int64_t world_size = 0;
    std::int64_t restart_count = 0;
    std::set<core::rendezvous::NodeId> members;
  };
  std::map<std::int64_t, Restored> restored_;  // By round.
  bool over_ = false;
  // Nodes without a session cannot be held back: a swap that seals a round has sealed it. So they
  // do not wait for members that are on their way back to a coordinator that was started again.
  bool others_were_first_ = false;
  std::set<std::int64_t> broken_;  // Rounds that one without a session has just left.
  std::vector<Seat> sealing_;      // By the effects that are being told.

  // Of all lives.
  struct Failing {
    core::rendezvous::NodeId id;
    std::int64_t round;
  };
  std::map<std::string, Failing> failures_;
  struct Known {
    std::optional<std::int64_t> round;
    std::int64_t restarts = 0;
  };
  std::map<core::rendezvous::NodeId, Known> known_;  // What each process has heard last.
  std::set<std::int64_t> blind_;  // Lives that have sealed without knowing of an earlier one.
  // The life in which a process was put into a round.
  std::map<std::pair<core::rendezvous::NodeId, std::int64_t>, std::int64_t> sealed_in_;
  std::map<std::int32_t, std::deque<Instant>> traffic_;
  std::int64_t seals_ = 0;
};

}  // namespace regroup::sim
