// A whole run on one thread, with its own clock, network, store and nodes. The seed picks the work
// and the faults; the invariants are checked after every step. Then the faults stop, and all live
// nodes must meet again within a bound.
//
//   Report report = World(options, trace).run();
//
// The same options give the same run and the same trace, on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/world/event_queue.h"
#include "sim/world/network.h"
#include "sim/world/node.h"
#include "sim/world/options.h"
#include "sim/world/plan.h"
#include "sim/world/surroundings.h"

namespace regroup::sim {

struct Totals {
  std::int64_t runs = 0;
  std::int64_t steps = 0;
  Duration virtual_time{};
  std::int64_t seals = 0;
  std::int64_t joins = 0;
  std::int64_t swaps_won = 0;
  std::int64_t swaps_lost = 0;
  std::int64_t late_swaps = 0;  // Won after their sender had given them up.
  std::int64_t lost_messages = 0;
  std::int64_t doubled_messages = 0;
  std::int64_t crashes = 0;
  std::int64_t pauses = 0;
  std::int64_t partitions = 0;
  std::int64_t leaves = 0;
  std::int64_t closes = 0;
  double nearest_to_bound = 0;  // How much of its bound the slowest meeting has used.

  void add(const Totals& other);
};

struct Report {
  std::optional<std::string> violation;  // None: all was as it must be.
  Totals totals;
};

class World final : private Surroundings {
 public:
  explicit World(const Options& options, Trace trace = {});
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Report run();

 private:
  enum class Stage { Storm, Meeting, Steady, Closing, Over };

  Instant now() const override { return events_.now(); }
  void ask(std::shared_ptr<const Request> request) override;
  void announce(std::int32_t node, std::string phase) override;
  void wake_at(std::int32_t node, std::int64_t process, std::uint64_t wait, Instant at,
               const std::string& phase) override;
  void start_after(std::int32_t node, Duration delay) override;
  bool peers_gone(std::int32_t node) const override;
  Invariants& invariants() override { return invariants_; }
  const Trace& trace() const override { return trace_; }

  Node& node_of(const Event& event) { return nodes_[static_cast<std::size_t>(event.node)]; }
  bool defer_while_paused(const Event& event);
  bool step(const Event& event);  // False: it was about something that is over.
  void on_request(const Event& event);
  void on_announce(const Request& request);
  void wake_early(const Node& node, std::int32_t index);

  // faults.cc
  void next_fault();
  void plan_next_fault();
  void kill(std::int32_t index, std::string_view how);
  void stop_faults();

  // verdicts.cc
  bool torchrun_permits() const;  // A meeting may be asked for.
  std::optional<std::string> why_not_met() const;
  bool is_closed() const;  // The run, as the store has it.
  std::optional<std::string> why_not_ended() const;
  void note_if_met();
  void must_have_met();
  void must_be_steady();
  void must_have_ended();
  bool is_lost(std::size_t seat) const;
  std::int64_t live() const;

  const Options options_;
  const Plan plan_;
  const Trace trace_;
  Dice dice_;
  EventQueue events_;
  Network network_;
  Store store_;
  Invariants invariants_;
  std::vector<Node> nodes_;

  Stage stage_ = Stage::Storm;
  std::vector<Instant> paused_until_;
  std::set<std::int32_t> dies_after_swap_;
  std::set<std::string> phases_over_;
  Instant calm_since_;
  std::optional<Instant> met_;
  std::vector<std::optional<Belief>> steady_;
  Totals totals_;
};

}  // namespace regroup::sim
