// What was before our time: a coordinator that was started again learns it from its nodes.
//
// They come one by one, and the first ones do not tell everything. Agents may still run the workers
// of a round; others have left it already and want to join the next; and the round that the first
// ones name need not be the latest. So there is a hold that lasts for the heartbeat limit: no node
// is let into a round, no round is sealed, and the run neither succeeds nor fails. Running workers
// are not touched by it.
//
// Values in, values out: the coordinator owns the rounds themselves.
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
  // `heartbeat_limit`: agents come back within the time that a silent node is given.
  Restoring(Instant now, Duration heartbeat_limit)
      : heartbeat_limit_(heartbeat_limit), young_until_(now + heartbeat_limit) {}

  using NodeId = rendezvous::NodeId;
  using HeldRank = rendezvous::HeldRank;

  // A node can claim anything: this tells whether there can be such a place in a round.
  static bool can_be(const HeldRank& place);

  enum class Returned {
    Elsewhere,         // It was in no round or in an older one, or restoring is over.
    OfTheLatestRound,  // It was in the same round as others that have come back.
    // It is the first of a later round, so the one named by the others was not the latest.
    OfALaterRound,
  };
  // A node has come that was last in this round, if in any; `again`: it has had a coordinator
  // before. This may begin a hold.
  Returned on_hello(const NodeId& node, const std::optional<HeldRank>& place, bool again,
                    Instant now);

  // There were rounds before this one.
  std::int64_t next_round() const { return next_round_; }

  // A round from before our time is found to be running. A failure that was kept belongs to an
  // older round.
  void begin_round() { ranks_.clear(); }
  void hold_for_round(Instant now);
  // False: another node has come back with this rank.
  bool take_rank(std::int64_t rank) { return ranks_.insert(rank).second; }
  std::int64_t ranks_taken() const { return static_cast<std::int64_t>(ranks_.size()); }

  bool is_holding() const { return hold_until_.has_value(); }
  std::optional<Instant> hold_until() const { return hold_until_; }
  // There may be a later round whose nodes have yet to come, and a failure of this one must not end
  // their run. The first failure is kept for the end of the hold.
  void keep_failure(const NodeId& node, const Failed& failed);

  struct Found {
    std::optional<std::pair<NodeId, Failed>> failure = {};
    std::int64_t missing = 0;  // Members of the latest round that have not come back.
    // The latest round, if all its members have come back.
    std::optional<std::int64_t> whole_round = {};
  };
  Found end_hold();

  // A round was sealed in our time, or the run is over: what was before does not matter any more.
  void leave_the_past() { is_past_ = true; }
  void drop_hold() { hold_until_.reset(); }
  bool is_past() const { return is_past_; }

 private:
  const Duration heartbeat_limit_;
  const Instant young_until_;
  std::set<NodeId> seen_;  // Nodes that came before then.
  bool is_past_ = false;
  std::optional<Instant> hold_until_;
  std::optional<std::pair<NodeId, Failed>> failure_;
  std::int64_t next_round_ = 0;

  struct Latest {
    std::int64_t round = -1;  // The latest round that any node was in.
    std::int64_t world_size = 0;
    std::set<std::int64_t> ranks = {};  // Ranks of the nodes that have come back.
  };
  Latest latest_;
  std::set<std::int64_t> ranks_;  // Ranks whose workers run, or are being stopped.
};

}  // namespace regroup::core::coordinator
