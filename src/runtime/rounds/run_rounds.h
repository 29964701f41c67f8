// The rounds of a run from the beginning: the first join finds out whether there is a coordinator,
// which may take a while. From then on every call is handed on to CoordinatedRounds or
// SharedRounds.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "io/loop/loop.h"
#include "regroup/rendezvous.h"
#include "runtime/common/helper.h"
#include "runtime/rendezvous/meet.h"
#include "runtime/rounds/rounds.h"

namespace regroup::runtime {

class RunRounds final : public Rounds {
 public:
  // Sets `interrupted` of the parameters, and `on_status` and `on_wait` where they are empty.
  // `meet` finds the coordinator, or a shared rendezvous; it blocks.
  using Meet = std::function<Result<Met>(const RendezvousParameters&, const AgentPart&)>;
  RunRounds(io::Loop& loop, RendezvousParameters parameters, AgentPart part, RoundEvents events,
            Meet meet = runtime::meet);
  ~RunRounds() override;

  void join() override;
  void give_up_join() override;
  void workers_run(int restart_count) override { side_->workers_run(restart_count); }
  void workers_ended() override { side_->workers_ended(); }
  void failed(const WorkerFailure& failure) override { side_->failed(failure); }
  bool warn(int signal) override { return side_ && side_->warn(signal); }
  void say_stalled(std::optional<core::hang::Votes> votes) override { side_->say_stalled(votes); }
  void say_where(std::vector<core::hang::RankAt> ours) override {
    side_->say_where(std::move(ours));
  }
  void check_in(bool succeeded, const std::string& cause) override {
    side_->check_in(succeeded, cause);
  }
  void leave(core::agent::Ending ending, bool close) override;

 private:
  void met(Result<Met> met);
  void fail(JoinFailed failed);

  io::Loop& loop_;
  std::shared_ptr<std::atomic<bool>> interrupted_;
  Helper helper_;
  RendezvousParameters parameters_;
  AgentPart part_;
  RoundEvents events_;
  const Meet meet_;
  Instant began_;
  io::Timer abandon_;             // Abandons a meeting that does not heed the interruption.
  bool meeting_ = false;          // The first join is under way.
  std::unique_ptr<Rounds> side_;  // Null until the first join knows which one is needed.
};

}  // namespace regroup::runtime
