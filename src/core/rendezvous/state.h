// What the nodes of a run share: which are in the round, which wait, when each was last heard of.
// Plain values; decide.h says what becomes of them.
//
// The fields and their meaning are those of torchrun's own shared state, so that regroup nodes and
// torchrun nodes can sit in one rendezvous. What regroup adds (claims, seal) travels as extra
// attributes, which torchrun carries along untouched.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace regroup::core::rendezvous {

// A moment on some node's wall clock, in microseconds since 1970 (UTC). Clocks of two machines may
// be minutes apart, so nothing is decided by comparing two nodes' stamps: a stamp that has changed
// says that its writer lives, and no more.
struct Stamp {
  std::int64_t micros = 0;
  friend constexpr auto operator<=>(Stamp, Stamp) = default;
};

// One agent process. A node that is started again is another node.
struct NodeId {
  std::string address;
  std::int64_t pid = 0;
  std::int64_t local_id = 0;  // Tells apart the handlers of one process.
  // torchrun's order of ranks: the address as text, then the numbers.
  friend auto operator<=>(const NodeId&, const NodeId&) = default;
};

std::string to_string(const NodeId& node);  // "address_pid_localid", as torchrun prints it.

// A rank held in an earlier round.
struct HeldRank {
  std::int64_t round = 0;
  std::int64_t rank = 0;
  std::int64_t world_size = 0;
  friend bool operator==(const HeldRank&, const HeldRank&) = default;
};

// What a regroup node says of itself. A torchrun node says nothing.
struct Claim {
  std::string name;                  // What people call the machine.
  std::optional<std::int64_t> wish;  // The rank asked for with --node-rank.
  std::optional<HeldRank> held;      // In the last round it was in.
  // Machines that are near each other have the same (--topology-key). Known to a coordinator only:
  // it is not in the state that nodes share.
  std::string group = {};
  friend bool operator==(const Claim&, const Claim&) = default;
};

// How large a round was when it was completed. A member that leaves takes its entry along, so the
// list of participants alone cannot tell a late reader that the round is already broken.
struct Seal {
  std::int64_t round = 0;
  std::int64_t world_size = 0;
  friend bool operator==(const Seal&, const Seal&) = default;
};

// Which of the two kinds of times PyTorch's nodes use. They cannot compare one with the other, so
// each writer copies the kind that is there.
enum class Dialect {
  NaiveTimes,  // PyTorch 2.3 to 2.5 (S3).
  AwareTimes,  // PyTorch 2.6 and newer (S4).
};

// Invariants, kept by apply(): a node is in at most one of participants, wait_list and
// redundancy_list; in a round that has just been completed, ranks are 0..n-1.
struct State {
  std::int64_t round = 0;
  bool complete = false;  // The round is sealed: ranks are given.
  // End of the last call, on the clock of the node that reached the minimum.
  std::optional<Stamp> deadline;
  bool closed = false;                          // For good: the run is over.
  std::map<NodeId, std::int64_t> participants;  // Ranks; all 0 while the round is open.
  std::set<NodeId> wait_list;                   // Came while a round with room was sealed.
  std::set<NodeId> redundancy_list;             // Spares: came to a full round, or found it full.
  std::map<NodeId, Stamp> last_heartbeats;

  std::map<NodeId, Claim> claims;  // Of the regroup nodes in one of the three lists.
  std::optional<Seal> seal;
  Dialect dialect = Dialect::AwareTimes;
  // Attributes that this version does not know, as bytes only the codec understands; written back
  // as they came.
  std::map<std::string, std::string> extra;

  friend bool operator==(const State&, const State&) = default;
};

// The stage a run is in, as text: "3.open", "3.complete", "3.closed". Every change that a node may
// be waiting for (a round sealed, reopened, the run closed) changes it.
std::string phase(const State& state);

}  // namespace regroup::core::rendezvous
