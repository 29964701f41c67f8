// The workers of one node in one round: simulated ones under the real core/workers, joined as
// runtime/workers joins real ones.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/agent/agent.h"
#include "core/hang/blame.h"
#include "core/workers/group.h"
#include "sim/node/nodes_plan.h"
#include "sim/node/simulated_workers.h"

namespace regroup::sim {

// What their agent is told of them.
class GroupSurroundings : public WorkersSurroundings {
 public:
  virtual bool has_others(std::int64_t round) const = 0;  // Nodes that may be waited for.
  virtual void violated(std::string what) = 0;

  virtual void worker_failed(int local_rank, int exit_code) = 0;  // The first.
  virtual void say_stalled(std::optional<core::hang::Votes> votes) = 0;
  virtual void say_where(std::vector<core::hang::RankAt> ours) = 0;
  virtual void group_over(core::agent::GroupEnd end) = 0;
};

class NodeWorkers {
 public:
  using Place = SimulatedWorkers::Place;
  NodeWorkers(const NodesPlan& plan, Place place, std::uint64_t seed, GroupSurroundings& around);

  void start();
  void stop(int signal, Duration grace);
  void kill();
  void fail_one() { workers_.end_one({.code = 1}); }  // By itself.
  // Its end is not our doing, either. False: there is none to end.
  bool strike_one(int number) { return workers_.end_one({.signal = number}); }
  void be_done() { workers_.be_done(); }  // Soon.
  void hear_hang(bool all_say_so);
  void hear_blame(const core::hang::Blame& blame);

  std::int64_t round() const { return place_.round; }
  std::int64_t living() const { return workers_.living(); }
  bool has_hanging() const { return workers_.has_hanging(); }
  bool is_running() const {
    return machine_.supervision().phase() == core::supervision::Phase::Running;
  }

 private:
  void later(Duration own, std::function<void()> act);
  void ended(int rank, WorkerExit exit);
  void play(const core::workers::Effects& effects);
  void act_on(const core::workers::Effect& effect);
  void arm();
  core::agent::GroupEnd how_it_ended() const;
  void must_be_late_enough(int signal);
  void must_hang(int rank);

  const NodesPlan& plan_;
  const Place place_;
  GroupSurroundings& around_;
  SimulatedWorkers workers_;
  WorkerBackend& backend_;  // The same, as the group sees it.
  core::workers::Group machine_;
  std::optional<Instant> armed_;
  // For the invariants: when SIGKILL may come at the earliest, and a stop ends at the latest.
  std::optional<Instant> grace_ends_;
  std::optional<Instant> stops_by_;
  bool killed_early_ = false;  // By a second signal.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace regroup::sim
