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
#include <string>
#include <vector>

#include "sim/node/nodes_plan.h"
#include "sim/node/rounds_at_work.h"
#include "sim/node/whole_node.h"
#include "sim/session/coordinated_world.h"

namespace regroup::sim {

class NodesWorld final : public CoordinatedWorld, private NodeSurroundings {
 public:
  explicit NodesWorld(const Options& options, Trace trace = {});

 private:
  NodesWorld(const Options& options, NodesPlan plan, Trace trace);

  bool may_be_done() const override { return !nodes_plan_.work.is_long || stage_ == Stage::Ending; }
  bool is_stuck(std::int64_t round) const override;
  std::optional<std::string> workers_began(std::int32_t node, RoundsAtWork::Round round) override;
  void ended(std::int32_t node, const NodeEnd& end) override;
  void group_failed(std::int32_t node, std::int64_t round) override;

  std::string description() const override { return describe(nodes_plan_); }
  void stepped() override;
  void look_at_work();

  WholeNode& node(std::int32_t index) { return nodes_[static_cast<std::size_t>(index)]; }

  // nodes_faults.cc
  void next_fault() override;
  void own_fault(Fault fault, std::int32_t index, Duration length) override;
  void send_signal(std::int32_t index);
  bool is_missing(std::int32_t index) const override;
  void calmed_down() override;

  // nodes_verdicts.cc
  void check_end(const NodeEnd& end);
  void check_failed(const NodeEnd& end);
  bool all_are_gone() const;
  std::int64_t seats() const;
  std::optional<std::string> why_not_met() const;
  void must_have_met();
  void must_have_ended();

  const NodesPlan nodes_plan_;
  std::deque<WholeNode> nodes_;
  RoundsAtWork at_work_;

  std::vector<NodeEnd> ends_;
  // The run has met after the faults, and nothing can go wrong any more: all must succeed.
  bool must_succeed_ = false;
  std::map<std::int64_t, std::string> verdicts_;  // By life of the coordinator.
};

}  // namespace regroup::sim
