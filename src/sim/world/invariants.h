// What must be true after every step, whatever the faults. It sees all that the world sees: every
// change of the stored state, and what each node comes to believe. The first violation is kept, in
// words, and ends the run.
//
// docs/simulator.md lists the invariants and says which of them torchrun itself breaks; those are
// relaxed in runs with torchrun nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/instant.h"
#include "core/rendezvous/settings.h"
#include "core/rendezvous/state.h"

namespace regroup::sim {

// A node's part in a round, from the end of its join until it turns to the next one.
struct Belief {
  core::rendezvous::NodeId node;
  std::int64_t round = 0;
  std::int64_t rank = 0;
  friend bool operator==(const Belief&, const Belief&) = default;
};

class Invariants {
 public:
  struct Relaxed {
    bool clocks = false;  // torchrun condemns, and ends the last call, by its wall clock.
    bool worlds = false;  // A late reader may start with what is left of a round, or twice in one.
    bool waits = false;   // torchrun lets a node wait in vain behind a full round.
  };

  Invariants(const core::rendezvous::Settings& settings, std::size_t nodes, Relaxed relaxed);

  // `writer` swapped `before` out; none: there was no state.
  void on_change(Instant now, const core::rendezvous::NodeId& writer,
                 const core::rendezvous::State& before, const core::rendezvous::State& after);

  // The coordinator has changed it; what it does for nodes with a session is judged elsewhere.
  // `is_other`: the node has none.
  void on_coordinated(Instant now, const core::rendezvous::State& before,
                      const core::rendezvous::State& after,
                      const std::function<bool(const core::rendezvous::NodeId&)>& is_other);
  // The store was lost with all that it held, and rounds may be counted from 0 again.
  void forget_rounds();

  // `seat`: which machine, whatever process runs on it.
  void on_joined(std::size_t seat, const core::rendezvous::NodeId& node,
                 const core::rendezvous::State& joined);
  void on_left(std::size_t seat) { beliefs_[seat].reset(); }

  // `judge` takes `node` for silent in the state that the store gave it at `seen`.
  void on_condemned(const core::rendezvous::NodeId& judge, const core::rendezvous::NodeId& node,
                    Instant seen);

  // A node's join has timed out, `after` its beginning. The time of a spare begins anew when it is
  // a spare no longer.
  void on_join_timed_out(const core::rendezvous::NodeId& node, Duration after);

  // The node has sent this many requests within one second.
  void on_busy(const core::rendezvous::NodeId& node, std::int64_t requests);

  void violated(std::string what) {
    if (!violation_) violation_ = std::move(what);
  }

  const std::optional<std::string>& violation() const { return violation_; }
  const std::vector<std::optional<Belief>>& beliefs() const { return beliefs_; }
  // The members of a round as it was sealed; null if it never was.
  const std::map<core::rendezvous::NodeId, std::int64_t>* sealed(std::int64_t round) const {
    const auto found = sealed_.find(round);
    return found == sealed_.end() ? nullptr : &found->second;
  }
  std::int64_t seals() const { return static_cast<std::int64_t>(sealed_.size()); }
  std::int64_t joins() const { return joins_; }

 private:
  using Ranks = std::map<core::rendezvous::NodeId, std::int64_t>;

  void check_rounds(const core::rendezvous::State& before, const core::rendezvous::State& after);
  void check_open(const core::rendezvous::State& state);
  void check_sealed(const core::rendezvous::State& state, const Ranks& as_sealed);
  void check_seal(const core::rendezvous::State& after);
  void check_last_call(Instant now, const core::rendezvous::State& before,
                       const core::rendezvous::State& after);
  void check_kept_ranks(const core::rendezvous::State& state);
  void check_two_rounds(const core::rendezvous::State& state);
  void check_silence(const std::string& verdict, const core::rendezvous::NodeId& node, Instant at);
  void check_lists(const core::rendezvous::State& state);
  void check_drops(Instant now, const core::rendezvous::NodeId& writer,
                   const core::rendezvous::State& before, const core::rendezvous::State& after);

  const core::rendezvous::Settings settings_;
  const Relaxed relaxed_;
  std::map<std::int64_t, Ranks> sealed_;  // Every round that ever was, as it was sealed.
  // When a node's stamp changed in the store.
  std::map<core::rendezvous::NodeId, std::vector<Instant>> heard_;
  Instant last_call_since_;
  std::vector<std::optional<Belief>> beliefs_;
  std::vector<std::int64_t> latest_;  // The last round that each machine was in.
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> holders_;  // Round, rank: machine.
  std::int64_t joins_ = 0;
  std::optional<std::string> violation_;
};

}  // namespace regroup::sim
