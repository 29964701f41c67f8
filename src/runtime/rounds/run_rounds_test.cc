// The first join finds out which side it is, and everything is then handed on to that side.
#include "runtime/rounds/run_rounds.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "io/loop/loop.h"
#include "regroup/store.h"
#include "runtime/rounds/rounds_testing.h"

namespace regroup::runtime {
namespace {

using core::agent::JoinFailure;

class RunRoundsTest : public testing::Test {
 protected:
  RunRoundsTest() : loop_(std::move(*io::Loop::open())) {
    script_->round = RendezvousInfo{.store = make_memory_store(),
                                    .round = 3,
                                    .rank = 0,
                                    .world_size = 1,
                                    .bootstrap = {.address = "127.0.0.1", .port = 1},
                                    .nodes = {}};
    events_.joined = [this](JoinedRound round) {
      joined_ = std::move(round);
      if (on_joined_) return on_joined_();
      loop_->stop();
    };
    events_.join_failed = [this](const JoinFailed& failed) {
      failed_ = failed;
      loop_->stop();
    };
    events_.left = [this] {
      left_ = true;
      loop_->stop();
    };
  }

  void make(RunRounds::Meet meet) {
    rounds_ = std::make_unique<RunRounds>(*loop_, RendezvousParameters{},
                                          AgentPart{.role = "default", .workers = 2}, events_,
                                          std::move(meet));
  }
  RunRounds::Meet meets_a_shared_rendezvous() {
    return [this](const RendezvousParameters&, const AgentPart&) -> Result<Met> {
      ++meetings_;
      return Met(std::make_unique<PlayedRendezvous>(script_));
    };
  }

  std::unique_ptr<io::Loop> loop_;
  std::shared_ptr<Script> script_ = std::make_shared<Script>();
  std::atomic<int> meetings_ = 0;
  RoundEvents events_;
  std::function<void()> on_joined_;
  std::optional<JoinedRound> joined_;
  std::optional<JoinFailed> failed_;
  bool left_ = false;
  std::unique_ptr<RunRounds> rounds_;
};

TEST_F(RunRoundsTest, JoinsThroughTheRendezvousThatItMetAndMeetsOnce) {
  make(meets_a_shared_rendezvous());
  int joined = 0;
  on_joined_ = [&] {
    if (++joined == 2) return loop_->stop();
    rounds_->join();
  };
  rounds_->join();
  loop_->run();
  EXPECT_EQ(joined, 2);
  EXPECT_EQ(meetings_, 1);
  EXPECT_EQ(joined_->info.round, 3);
  EXPECT_FALSE(rounds_->warn(10)) << "Without a coordinator there is nobody to tell.";
}

TEST_F(RunRoundsTest, SaysWhyNobodyWasMet) {
  make([](const RendezvousParameters&, const AgentPart&) -> Result<Met> {
    return fail(ErrorKind::Timeout, "no store answers");
  });
  rounds_->join();
  loop_->run();
  ASSERT_TRUE(failed_);
  EXPECT_EQ(failed_->why, JoinFailure::Failed);
  EXPECT_EQ(failed_->error.message, "no store answers");
}

TEST_F(RunRoundsTest, AMeetingThatHeedsTheInterruptionIsGivenUp) {
  make([](const RendezvousParameters& parameters, const AgentPart&) -> Result<Met> {
    while (!*parameters.interrupted) std::this_thread::yield();
    return fail(ErrorKind::Cancelled, "interrupted");
  });
  rounds_->join();
  rounds_->give_up_join();
  loop_->run();
  ASSERT_TRUE(failed_);
  EXPECT_EQ(failed_->why, JoinFailure::GivenUp);
}

TEST_F(RunRoundsTest, AnInterruptionThatTheMeetingDoesNotHeedIsHeeded) {
  make([this](const RendezvousParameters& parameters, const AgentPart& part) -> Result<Met> {
    while (!*parameters.interrupted) std::this_thread::yield();
    return meets_a_shared_rendezvous()(parameters, part);
  });
  rounds_->join();
  rounds_->give_up_join();
  loop_->run();
  ASSERT_TRUE(failed_);
  EXPECT_EQ(failed_->why, JoinFailure::GivenUp);
}

TEST_F(RunRoundsTest, LeavesThoughItHasMetNobody) {
  make(meets_a_shared_rendezvous());
  EXPECT_FALSE(rounds_->warn(10));
  rounds_->leave(core::agent::Ending::Succeeded, true);
  EXPECT_FALSE(left_) << "No event comes from inside a call.";
  loop_->run();
  EXPECT_TRUE(left_);
}

}  // namespace
}  // namespace regroup::runtime
