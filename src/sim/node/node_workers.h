// The workers of one node in one round: simulated processes under the real supervision and the real
// hang detector, joined as runtime/workers joins them.
//
// They end well, fail, hang, stop at once or slowly, heed nothing but SIGKILL, or not even that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/agent/agent.h"
#include "core/hang/blame.h"
#include "core/hang/hang.h"
#include "core/supervision/supervision.h"
#include "sim/node/nodes_plan.h"

namespace regroup::sim {

// What workers are told of the world, and what their agent is told of them.
class WorkersSurroundings {
 public:
  virtual ~WorkersSurroundings() = default;
  virtual Instant own_now() const = 0;
  virtual void after(Duration own, std::function<void()> act) = 0;
  virtual bool is_stormy() const = 0;
  virtual bool may_be_done() const = 0;                   // Long work has come to its end.
  virtual bool is_stuck(std::int64_t round) const = 0;    // A worker of it hangs, on some node.
  virtual bool has_others(std::int64_t round) const = 0;  // Nodes that may be waited for.
  virtual void tell(std::string_view text) const = 0;
  virtual void violated(std::string what) = 0;

  virtual void worker_failed(int local_rank, int exit_code) = 0;  // The first.
  virtual void say_stalled(std::optional<core::hang::Votes> votes) = 0;
  virtual void say_where(std::vector<core::hang::RankAt> ours) = 0;
  virtual void group_over(core::agent::GroupEnd end) = 0;
};

class NodeWorkers {
 public:
  struct Place {
    std::int64_t round = 0;
    std::int64_t first_rank = 0;
    std::int64_t workers = 1;
  };
  NodeWorkers(const NodesPlan& plan, Place place, std::uint64_t seed, WorkersSurroundings& around);

  void start();
  void stop(int signal, Duration grace);
  void kill();
  void fail_one();  // By itself.
  void be_done();   // Soon.
  void hear_hang(bool all_say_so);
  void hear_blame(const core::hang::Blame& blame);

  std::int64_t round() const { return place_.round; }
  std::int64_t living() const;
  bool has_hanging() const;
  bool is_running() const { return machine_.phase() == core::supervision::Phase::Running; }
  bool is_over() const { return machine_.phase() == core::supervision::Phase::Over; }
  bool succeeded() const { return machine_.succeeded(); }
  // Somebody was beyond reach, and that is why processes may be left.
  bool has_survivors() const;

 private:
  enum class Heeds { AtOnce, Slowly, Nothing };
  struct Process {
    bool lives = true;
    bool hangs = false;
    bool is_doomed = false;  // Its end is under way.
    bool cannot_be_killed = false;
    Heeds heeds = Heeds::AtOnce;
  };
  void later(Duration own, std::function<void()> act);
  void plan_life(int rank);
  void plan_success(int rank, Duration within);
  void end(int rank, core::supervision::Exit exit);
  void send(int rank, int signal);
  void play(core::supervision::Effects effects);
  void arm();
  void look_for_a_hang();
  void follow_hang();
  std::vector<core::hang::RankAt> where() const;
  void condemn(int rank);
  void must_be_late_enough(int signal);

  const NodesPlan& plan_;
  const Place place_;
  WorkersSurroundings& around_;
  Dice dice_;
  std::vector<Process> processes_;
  core::supervision::Supervision machine_;
  std::optional<core::hang::HangDetector> hang_;
  std::optional<core::hang::Stall> stall_;
  bool all_say_hang_ = false;
  bool hung_ = false;
  std::optional<Instant> blame_ourselves_at_;
  std::uint64_t written_ = 0;
  std::optional<Instant> armed_;
  // For the invariants: when SIGKILL may come at the earliest, and a stop ends at the latest.
  std::optional<Instant> grace_ends_;
  std::optional<Instant> stops_by_;
  bool killed_early_ = false;  // By a second signal.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace regroup::sim
