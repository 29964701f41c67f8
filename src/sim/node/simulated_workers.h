// Workers that are simulated, behind the seam that real ones are behind (regroup/worker_backend.h).
//
// They end well, fail, hang, stop at once or slowly, heed nothing but SIGKILL, or not even that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/hang/blame.h"
#include "core/hang/hang.h"
#include "regroup/worker_backend.h"
#include "sim/node/nodes_plan.h"

namespace regroup::sim {

// What workers are told of the world.
class WorkersSurroundings {
 public:
  virtual ~WorkersSurroundings() = default;
  virtual Instant own_now() const = 0;
  virtual void after(Duration own, std::function<void()> act) = 0;
  virtual bool is_stormy() const = 0;
  virtual bool may_be_done() const = 0;                 // Long work has come to its end.
  virtual bool is_stuck(std::int64_t round) const = 0;  // A worker of it hangs, on some node.
  virtual void tell(std::string_view text) const = 0;
};

class SimulatedWorkers final : public WorkerBackend {
 public:
  struct Place {
    std::int64_t round = 0;
    std::int64_t first_rank = 0;
    std::int64_t workers = 1;
  };
  SimulatedWorkers(const NodesPlan& plan, Place place, std::uint64_t seed,
                   WorkersSurroundings& around);

  Result<void> start(const GroupToStart& group, Ended ended) override;
  void signal(int local_rank, int number) override;
  void signal_all(int number) override;
  void kill_all() override;
  int count_alive() override { return static_cast<int>(living()); }

  bool end_one(WorkerExit exit);  // By itself. False: there is none to end.
  void be_done();                 // Soon.

  std::int64_t living() const;
  bool has_hanging() const;
  bool hangs(int local_rank) const;
  // What can be seen of them from outside: they write, unless one of the round hangs.
  std::vector<std::optional<core::hang::Sample>> look();
  std::vector<core::hang::RankAt> where() const;

 private:
  enum class Heeds { AtOnce, Slowly, Nothing };
  struct Process {
    bool lives = true;
    bool hangs = false;
    bool is_ending = false;
    bool cannot_be_killed = false;
    Heeds heeds = Heeds::AtOnce;
  };
  void later(Duration own, std::function<void()> act);
  void plan_life(int rank);
  void plan_success(int rank, Duration within);
  void end(int rank, WorkerExit exit);

  const NodesPlan& plan_;
  const Place place_;
  WorkersSurroundings& around_;
  Dice dice_;
  Ended ended_;
  std::vector<Process> processes_;
  bool is_stopped_ = false;
  std::uint64_t written_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace regroup::sim
