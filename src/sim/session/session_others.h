// The nodes of a run with a coordinator that have no session: torchrun's, and regroup's that were
// not offered one. They are the nodes of the world without a coordinator (node.h); what they read
// and swap is the run's key on the coordinator's host.
//
// A process of torchrun has one connection to the store, which is not made again: once the host has
// died, all it asks fails, as an unanswered request does in the other world, until it gives up and
// another process follows. A regroup node connects again and makes the key first, because the store
// may be another one.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/session/session_host.h"
#include "sim/session/session_links.h"
#include "sim/session/session_plan.h"
#include "sim/world/invariants.h"
#include "sim/world/network.h"
#include "sim/world/node.h"
#include "sim/world/surroundings.h"
#include "sim/world/world.h"

namespace regroup::sim {

class SessionOthers final : private Surroundings {
 public:
  // What becomes of the nodes that have a session.
  class Peers {
   public:
    virtual ~Peers() = default;
    // It runs, and has not turned to another round than this.
    virtual bool stays_in(const core::rendezvous::NodeId& node, std::int64_t round) const = 0;
  };

  // `first`: what the agenda calls the first of them; the others follow.
  SessionOthers(const SessionPlan& plan, std::int32_t first, std::uint64_t seed, Happenings& agenda,
                SessionHost& host, const Peers& peers, const Trace& trace, Totals& totals);

  std::int32_t count() const { return static_cast<std::int32_t>(nodes_.size()); }
  Node& node(std::int32_t index) { return nodes_[static_cast<std::size_t>(index)]; }
  const Node& node(std::int32_t index) const { return nodes_[static_cast<std::size_t>(index)]; }
  Invariants& invariants() override { return invariants_; }
  const Invariants& invariants() const { return invariants_; }

  void start_all();
  void start_after(std::int32_t index, Duration delay) override;

  // Faults.
  void kill(std::int32_t index);
  void pause(std::int32_t index, Duration length);
  void cut_off(std::int32_t index, Duration length);
  void leave(std::int32_t index, Duration come_back);
  void calm_down();
  Instant paused_until(std::int32_t index) const {
    return paused_until_[static_cast<std::size_t>(index)];
  }
  // The workers of the round fail on one node; those of these nodes may follow.
  void group_failed(std::int64_t round, double drags_others);

  // The host and what it says.
  void host_started();
  void host_died(bool seen);
  void phase_over(const std::string& phase);
  void state_changed(const core::rendezvous::State& before, const core::rendezvous::State& after,
                     const core::rendezvous::NodeId* writer);

  bool is_one(const core::rendezvous::NodeId& id) const;  // It runs on one of these machines.
  // A torchrun node that was dropped while it lived trains on and does not notice.
  bool is_lost(std::int32_t index) const;
  std::int64_t live() const;  // Without these lost ones.
  bool has_torchrun() const { return plan_.others.has_torchrun; }
  // Why they are not where the state says, or none.
  std::optional<std::string> why_not_in(const core::rendezvous::State& state) const;
  std::optional<std::string> why_not_ended() const;

 private:
  Instant now() const override { return agenda_.now(); }
  void ask(std::shared_ptr<const Request> request) override;
  void announce(std::int32_t node, std::string phase) override;
  void wake_at(std::int32_t node, std::int64_t process, std::uint64_t wait, Instant at,
               const std::string& phase) override;
  bool peers_gone(std::int32_t node) const override;
  const Trace& trace() const override { return trace_; }

  // A node's connection to the store.
  struct Connection {
    std::optional<std::int64_t> life = {};  // The life of the host at its other end.
    bool is_new = false;                    // The key is made before anything else.
  };
  bool reaches_host(const Request& request);
  void on_request(const Request& request, bool makes_key);
  void wake_early(std::int32_t index);
  void plan_fortune(std::int32_t index);
  void at_node(const Request& request, Instant at, std::function<void(Node&)> act);
  void plan_at(std::int32_t index, std::int64_t process, Instant at, std::function<void()> act);

  const SessionPlan& plan_;
  const std::int32_t first_;
  Happenings& agenda_;
  SessionHost& host_;
  const Peers& peers_;
  const Trace& trace_;
  Totals& totals_;
  Dice dice_;
  Network network_;
  Invariants invariants_;
  std::deque<Node> nodes_;
  std::vector<Connection> connections_;
  std::vector<Instant> paused_until_;
  std::set<std::string> phases_over_;
  bool calm_ = false;
};

}  // namespace regroup::sim
