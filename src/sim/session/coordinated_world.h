// What every run with a coordinator consists of, on one thread: nodes, the coordinator's host, the
// connections between them, what happens to each, and the invariants. SessionWorld and NodesWorld
// add their nodes, what only they can suffer, and what must have become of them in the end.
//
// A derived world owns its nodes and names each of them with add() when it is made.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/session/connected_node.h"
#include "sim/session/session_host.h"
#include "sim/session/session_invariants.h"
#include "sim/session/session_links.h"
#include "sim/session/session_plan.h"
#include "sim/world/trace.h"
#include "sim/world/world.h"

namespace regroup::sim {

class CoordinatedWorld : protected SessionSurroundings, private HostSurroundings, private LinkEnds {
 public:
  CoordinatedWorld(const CoordinatedWorld&) = delete;
  CoordinatedWorld& operator=(const CoordinatedWorld&) = delete;
  ~CoordinatedWorld() override = default;

  Report run();

 protected:
  enum class Stage { Storm, Meeting, Steady, Ending, Over };
  // What happens to a node besides what it does.
  struct Luck {
    Instant paused_until;
    Instant fault_until;     // The last thing that went wrong with it is over.
    Instant trouble_until;   // The same; or since then it has another connection.
    bool awaited = false;    // It has lost its session by the host's death only.
    bool is_coming = false;  // It will be started.
    bool stays_down = false;
  };
  // What can go wrong. The last three happen in one of the two worlds only.
  enum class Fault {
    Crash,
    Pause,
    CutOff,
    CutOffMany,
    BreakLinks,
    KillHost,
    PauseHost,
    Leave,
    Signal,
    FailWorker,
  };

  CoordinatedWorld(const Options& options, SessionPlan plan, std::uint64_t seed, Trace trace);
  void add(ConnectedNode& node) { nodes_.push_back(&node); }

  // ---- What differs ----
  virtual std::string description() const = 0;  // The head of the trace.
  virtual void begin() {}      // Starts what is there besides the host and the nodes.
  virtual void stepped() = 0;  // Something has happened.
  virtual void next_fault() = 0;
  virtual void own_fault(Fault fault, std::int32_t index, Duration length) = 0;
  virtual void cut_off_many(Duration length);
  virtual void host_died(bool /*seen*/) {}
  virtual void host_started() {}
  // The faults stop: it is not there, and may be started.
  virtual bool is_missing(std::int32_t index) const { return !any(index).is_running(); }
  virtual void calmed_down() = 0;
  virtual void add_totals(Totals& /*totals*/) const {}
  // For a node without a session. None: it is gone.
  virtual std::optional<Instant> paused_until(const Happening& /*happening*/) const {
    return Instant{};
  }
  void state_changed(const core::rendezvous::State&, const core::rendezvous::State&,
                     const core::rendezvous::NodeId*) override {}
  void phase_over(const std::string&) override {}

  // ---- What a node sees ----
  Instant now() const override { return agenda_.now(); }
  void later(std::int32_t node, Instant at, std::function<void()> act) override;
  void connect(std::int32_t node) override;
  std::int64_t life() const override { return host_.life(); }
  Links& links() override { return links_; }
  bool is_stormy() const override { return stage_ == Stage::Storm; }
  SessionInvariants& invariants() override { return invariants_; }
  const Trace& trace() const override { return trace_; }

  std::vector<SessionView> views() const override;
  // For how long nothing has gone wrong with it, with the host, or between the two.
  Duration undisturbed_for(std::int32_t index) const;

  ConnectedNode& any(std::int32_t index) { return *nodes_[static_cast<std::size_t>(index)]; }
  const ConnectedNode& any(std::int32_t index) const {
    return *nodes_[static_cast<std::size_t>(index)];
  }
  Luck& luck(std::int32_t index) { return luck_[static_cast<std::size_t>(index)]; }
  const Luck& luck(std::int32_t index) const { return luck_[static_cast<std::size_t>(index)]; }
  std::int32_t count() const { return static_cast<std::int32_t>(nodes_.size()); }
  void plan(Duration after, std::function<void()> act);
  void start_after(std::int32_t index, Duration delay);
  // One failure makes others, because the workers of a round talk to each other.
  void drag_others(std::int32_t failed, std::int64_t round, double chance);
  // How many nodes can be in a round as whole groups: live ones, and those of these names that are
  // done and gone and keep their place.
  std::int64_t in_whole_groups(const std::set<std::string>& done) const;

  // One of these faults, with equal chances; what is listed twice comes twice as often.
  void play_fault(std::int32_t index, std::span<const Fault> faults);

  const Options options_;
  const SessionPlan plan_;
  const Trace trace_;
  Dice dice_;
  Happenings agenda_;
  Links links_;
  SessionInvariants invariants_;
  SessionHost host_;
  Totals totals_;
  Stage stage_ = Stage::Storm;
  Instant calm_since_;

 private:
  SessionView view(std::int32_t node) const override;
  Duration well_for(std::int32_t node) const override;
  void came_to_host(LinkId link, std::string_view bytes) override { host_.on_bytes(link, bytes); }
  void came_to_node(LinkId link, std::string_view bytes) override;
  bool is_connected(std::int32_t index) const;
  bool put_off(Happening& happening);
  void start_host();

  // coordinated_faults.cc
  void plan_next_fault();
  void crash(std::int32_t index);
  void pause(std::int32_t index, Duration length);
  void cut_off(std::int32_t index, Duration length);
  void break_links(std::int32_t index);
  void kill_host();
  void pause_host(Duration length);
  void stop_faults();

  std::vector<ConnectedNode*> nodes_;
  std::vector<Luck> luck_;
  Instant host_paused_until_;
  Instant host_trouble_until_;
  Instant host_since_;
};

}  // namespace regroup::sim
