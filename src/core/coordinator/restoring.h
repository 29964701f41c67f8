// What was before our time: a coordinator that was started again learns it from its nodes.
//
// They come one by one, and what the first ones say is not all. Agents may still run the workers of
// a round; others have left it already and want to join the next; and the round that the first ones
// name need not be the latest. So for as long as a silent node has, there is a hold: nobody is let
// into a round, none is sealed, and no run succeeds or fails. Workers that run are not touched by
// it.
//
// Values in, values out: the rounds themselves are the coordinator's.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "base/instant.h"
#include "core/coordinator/messages.h"
#include "core/rendezvous/state.h"

namespace regroup::core::coordinator {

class Restoring {
 public:
  // `heartbeat_limit`: agents come back within as long as a silent one has.
  Restoring(Instant now, Duration heartbeat_limit)
      : heartbeat_limit_(heartbeat_limit), young_until_(now + heartbeat_limit) {}

  using NodeId = rendezvous::NodeId;
  using HeldRank = rendezvous::HeldRank;

  // Anybody can say anything: whether there can be such a place in a round.
  static bool can_be(const HeldRank& place);

  enum class Returned {
    Elsewhere,         // It was in no round, in an older one, or all that is past.
    OfTheLatestRound,  // As others that have come back.
    OfALaterRound,     // The first of it: what the others were in is not the latest.
  };
  // A node has come that was in this round last, if in any; `again`: it has had a coordinator
  // before. May begin a hold.
  Returned on_hello(const NodeId& node, const std::optional<HeldRank>& place, bool again,
                    Instant now);

  // Rounds before this one have been.
  std::int64_t next_round() const { return next_round_; }

  // A round of before is found to run. A failure that was kept is one of an older round.
  void begin_round() { ranks_.clear(); }
  void hold_for_round(Instant now);
  // False: another node has come back with this rank.
  bool take_rank(std::int64_t rank) { return ranks_.insert(rank).second; }

  bool is_holding() const { return hold_until_.has_value(); }
  std::optional<Instant> hold_until() const { return hold_until_; }
  // There may be a later round, whose nodes have yet to come; a failure must not end their run. The
  // first one is kept for the end of the hold.
  void keep_failure(const NodeId& node, const Failed& failed);

  struct Found {
    std::optional<std::pair<NodeId, Failed>> failure = {};
    std::int64_t missing = 0;  // Members of the latest round that have not come back.
    // The latest round, if all its members have come back.
    std::optional<std::int64_t> whole_round = {};
  };
  Found end_hold();

  // A round is sealed in our time, or the run is over: what was before does not matter any more.
  void leave_the_past() { is_past_ = true; }
  void drop_hold() { hold_until_.reset(); }
  bool is_past() const { return is_past_; }

 private:
  const Duration heartbeat_limit_;
  const Instant young_until_;
  std::set<NodeId> seen_;  // By then.
  bool is_past_ = false;
  std::optional<Instant> hold_until_;
  std::optional<std::pair<NodeId, Failed>> failure_;
  std::int64_t next_round_ = 0;

  struct Latest {
    std::int64_t round = -1;  // That anybody was in.
    std::int64_t world_size = 0;
    std::set<std::int64_t> ranks = {};  // Of those who have come back.
  };
  Latest latest_;
  std::set<std::int64_t> ranks_;  // Whose workers run, or are being stopped.
};

}  // namespace regroup::core::coordinator
