// A whole run of whole nodes on one thread: real agents under a real coordinator, with simulated
// workers. The seed picks the work and the faults; the invariants are checked at every step. Then
// the faults stop, and every node must come to the end that docs/cli.md promises it.
//
//   Report report = NodesWorld(options, trace).run();
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/node/nodes_plan.h"
#include "sim/node/whole_node.h"
#include "sim/session/session_host.h"
#include "sim/world/world.h"

namespace regroup::sim {

class NodesWorld final : private NodeSurroundings, private HostSurroundings, private LinkEnds {
 public:
  explicit NodesWorld(const Options& options, Trace trace = {});
  NodesWorld(const NodesWorld&) = delete;
  NodesWorld& operator=(const NodesWorld&) = delete;

  Report run();

 private:
  enum class Stage { Storm, Meeting, Ending, Over };
  // What happens to a node besides what it does.
  struct Luck {
    Instant paused_until;
    Instant trouble_until;   // Nobody may wonder that it was not heard before that.
    bool awaited = false;    // It has lost its session by the host's death only.
    bool is_coming = false;  // It will be started.
    bool stays_down = false;
  };

  Instant now() const override { return agenda_.now(); }
  void later(std::int32_t node, Instant at, std::function<void()> act) override;
  void connect(std::int32_t node) override;
  std::int64_t life() const override { return host_.life(); }
  Links& links() override { return links_; }
  bool is_stormy() const override { return stage_ == Stage::Storm; }
  bool may_be_done() const override { return !plan_.work.is_long || stage_ == Stage::Ending; }
  bool is_stuck(std::int64_t round) const override;
  void group_failed(std::int32_t node, std::int64_t round) override;
  void ended(std::int32_t node, const NodeEnd& end) override;
  SessionInvariants& invariants() override { return invariants_; }
  const Trace& trace() const override { return trace_; }

  std::vector<SessionView> views() const override;
  SessionView view(std::int32_t node) const override;
  Duration well_for(std::int32_t node) const override;
  void state_changed(const core::rendezvous::State&, const core::rendezvous::State&,
                     const core::rendezvous::NodeId*) override {}
  void phase_over(const std::string&) override {}

  void came_to_host(LinkId link, std::string_view bytes) override { host_.on_bytes(link, bytes); }
  void came_to_node(LinkId link, std::string_view bytes) override;

  WholeNode& node(std::int32_t index) { return nodes_[static_cast<std::size_t>(index)]; }
  const WholeNode& node(std::int32_t index) const {
    return nodes_[static_cast<std::size_t>(index)];
  }
  Luck& luck(std::int32_t index) { return luck_[static_cast<std::size_t>(index)]; }
  const Luck& luck(std::int32_t index) const { return luck_[static_cast<std::size_t>(index)]; }
  std::int32_t count() const { return static_cast<std::int32_t>(nodes_.size()); }
  void plan(Duration after, std::function<void()> act);
  void start_after(std::int32_t index, Duration delay);
  bool put_off(Happening& happening);

  // nodes_faults.cc
  void plan_next_fault();
  void next_fault();
  void crash(std::int32_t index);
  void send_signal(std::int32_t index);
  void pause(std::int32_t index, Duration length);
  void partition(std::int32_t index, Duration length);
  void break_links(std::int32_t index);
  void kill_host();
  void stop_faults();

  // nodes_verdicts.cc
  void check_end(const NodeEnd& end);
  void check_failed(const NodeEnd& end);
  bool all_are_gone() const;
  std::int64_t seats() const;
  std::optional<std::string> why_not_met() const;
  void must_have_met();
  void must_have_ended();

  const Options options_;
  const NodesPlan plan_;
  const Trace trace_;
  Dice dice_;
  Happenings agenda_;
  Links links_;
  SessionInvariants invariants_;
  SessionHost host_;
  Totals totals_;
  std::deque<WholeNode> nodes_;
  std::vector<Luck> luck_;
  Instant host_paused_until_;
  Instant host_trouble_until_;

  Stage stage_ = Stage::Storm;
  Instant calm_since_;
  std::vector<NodeEnd> ends_;
  // The run has met after the faults, and nothing can go wrong any more: all must succeed.
  bool must_succeed_ = false;
  std::map<std::int64_t, std::string> verdicts_;  // By life.
};

}  // namespace regroup::sim
