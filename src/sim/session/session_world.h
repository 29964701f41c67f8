// A whole run with a coordinator on one thread: the real coordinator, the real conversation of its
// nodes, the real bytes between them. The seed picks the work and the faults; the invariants are
// checked at every step. Then the faults stop, and all live nodes must be in one round again.
//
//   Report report = SessionWorld(options, trace).run();
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/session/coordinated_world.h"
#include "sim/session/session_node.h"
#include "sim/session/session_others.h"

namespace regroup::sim {

class SessionWorld final : public CoordinatedWorld, private SessionOthers::Peers {
 public:
  explicit SessionWorld(const Options& options, Trace trace = {});

 private:
  SessionWorld(const Options& options, const SessionPlan& plan, Trace trace);

  std::string description() const override { return describe(plan_); }
  void begin() override { others_.start_all(); }
  void stepped() override;
  void add_totals(Totals& totals) const override;
  std::optional<Instant> paused_until(const Happening& happening) const override;
  void group_failed(std::int32_t node, std::int64_t round) override;
  void state_changed(const core::rendezvous::State& before, const core::rendezvous::State& after,
                     const core::rendezvous::NodeId* writer) override;
  void phase_over(const std::string& phase) override { others_.phase_over(phase); }
  bool stays_in(const core::rendezvous::NodeId& node, std::int64_t round) const override;

  SessionNode& node(std::int32_t index) { return nodes_[static_cast<std::size_t>(index)]; }

  // session_faults.cc
  void next_fault() override;
  void next_fault_of_other(std::int32_t index);
  void own_fault(Fault fault, std::int32_t index, Duration length) override;
  void cut_off_many(Duration length) override;
  void host_died(bool seen) override { others_.host_died(seen); }
  void host_started() override { others_.host_started(); }
  void calmed_down() override;

  // session_verdicts.cc
  std::int64_t seats(const std::set<std::string>& done) const;
  bool has_sessions() const;
  bool can_meet() const;
  void succeed();
  std::optional<std::string> why_not_ended() const;
  std::optional<std::string> why_not_met() const;
  void note_if_met();
  void must_have_met();
  void must_be_steady();
  void must_have_ended();

  std::deque<SessionNode> nodes_;
  SessionOthers others_;

  bool closed_early_ = false;
  std::optional<Instant> met_;
  std::int64_t told_when_met_ = 0;
  std::vector<std::optional<Belief>> others_when_met_;
};

}  // namespace regroup::sim
