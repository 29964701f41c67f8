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

#include "sim/session/session_host.h"
#include "sim/session/session_node.h"
#include "sim/session/session_others.h"
#include "sim/session/session_plan.h"
#include "sim/world/world.h"

namespace regroup::sim {

class SessionWorld final : private SessionSurroundings,
                           private HostSurroundings,
                           private LinkEnds,
                           private SessionOthers::Peers {
 public:
  explicit SessionWorld(const Options& options, Trace trace = {});
  SessionWorld(const SessionWorld&) = delete;
  SessionWorld& operator=(const SessionWorld&) = delete;

  Report run();

 private:
  enum class Stage { Storm, Meeting, Steady, Ending, Over };
  // What happens to a node besides what it does.
  struct Luck {
    Instant paused_until;
    Instant trouble_until;  // Nobody may wonder that it was not heard before that.
    bool awaited = false;   // It has lost its session by the host's death only.
  };

  Instant now() const override { return agenda_.now(); }
  void later(std::int32_t node, Instant at, std::function<void()> act) override;
  void connect(std::int32_t node) override;
  Links& links() override { return links_; }
  bool is_stormy() const override { return stage_ == Stage::Storm; }
  void group_failed(std::int32_t node, std::int64_t round) override;
  SessionInvariants& invariants() override { return invariants_; }
  const Trace& trace() const override { return trace_; }

  std::vector<SessionView> views() const override;
  SessionView view(std::int32_t node) const override;
  Duration well_for(std::int32_t node) const override;
  void state_changed(const core::rendezvous::State& before, const core::rendezvous::State& after,
                     const core::rendezvous::NodeId* writer) override;
  void phase_over(const std::string& phase) override { others_.phase_over(phase); }
  bool stays_in(const core::rendezvous::NodeId& node, std::int64_t round) const override;

  void came_to_host(LinkId link, std::string_view bytes) override { host_.on_bytes(link, bytes); }
  void came_to_node(LinkId link, std::string_view bytes) override;

  SessionNode& node(std::int32_t index) { return nodes_[static_cast<std::size_t>(index)]; }
  const SessionNode& node(std::int32_t index) const {
    return nodes_[static_cast<std::size_t>(index)];
  }
  Luck& luck(std::int32_t index) { return luck_[static_cast<std::size_t>(index)]; }
  const Luck& luck(std::int32_t index) const { return luck_[static_cast<std::size_t>(index)]; }
  std::int32_t count() const { return static_cast<std::int32_t>(nodes_.size()); }
  void plan(Duration after, std::function<void()> act);
  void start_after(std::int32_t index, Duration delay);
  bool put_off(Happening& happening);

  // session_faults.cc
  void plan_next_fault();
  void next_fault();
  void next_fault_of_other(std::int32_t index);
  void crash(std::int32_t index);
  void pause(std::int32_t index, Duration length);
  void partition(std::int32_t index, Duration length);
  void kill_host();
  void pause_host(Duration length);
  void stop_faults();

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

  const Options options_;
  const SessionPlan plan_;
  const Trace trace_;
  Dice dice_;
  Happenings agenda_;
  Links links_;
  SessionInvariants invariants_;
  SessionHost host_;
  Totals totals_;
  std::deque<SessionNode> nodes_;
  std::vector<Luck> luck_;
  SessionOthers others_;
  Instant host_paused_until_;
  Instant host_trouble_until_;

  Stage stage_ = Stage::Storm;
  bool closed_early_ = false;
  Instant calm_since_;
  std::optional<Instant> met_;
  std::int64_t told_when_met_ = 0;
  std::vector<std::optional<Belief>> others_when_met_;
};

}  // namespace regroup::sim
