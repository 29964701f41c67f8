// Rounds that nodes share in a store, with a rendezvous that the test plays and a store in memory.
#include "runtime/rounds/shared_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/hang/council.h"
#include "io/loop/loop.h"
#include "regroup/store.h"
#include "runtime/rounds/rounds_testing.h"

namespace regroup::runtime {
namespace {

using core::agent::JoinFailure;
using core::agent::Order;
using testing::ElementsAre;
using testing::HasSubstr;

class SharedRoundsTest : public testing::Test {
 protected:
  SharedRoundsTest() : loop_(std::move(*io::Loop::open())), store_(make_memory_store()) {
    script_->round = RendezvousInfo{.store = store_,
                                    .round = 3,
                                    .rank = 0,
                                    .world_size = 1,
                                    .bootstrap = {.address = "127.0.0.1", .port = 1},
                                    .nodes = {}};
    RoundEvents events;
    events.joined = [this](const JoinedRound& round) {
      tell("joined round " + std::to_string(round.info.round) + " with " +
           std::to_string(round.ranks.global_world_size) + " workers");
    };
    events.join_failed = [this](const JoinFailed& failed) {
      failed_ = failed;
      tell("join failed");
    };
    events.ordered = [this](const Order& order) {
      order_ = order;
      tell("ordered");
    };
    events.hangs = [this](bool all_say_so) { tell(all_say_so ? "hangs" : "hangs no more"); };
    events.blamed = [this](const core::hang::Blame& blame) { tell(blame.summary); };
    events.waiting = [this](const std::string& line) { tell(line); };
    events.left = [this] { tell("left"); };
    rounds_ = std::make_unique<SharedRounds>(
        *loop_, std::make_unique<PlayedRendezvous>(script_), interrupted_,
        SharedRounds::Options{.role = "default", .workers = 2, .look_again = 1ms},
        std::move(events));
  }

  void tell(const std::string& what) {
    told_.push_back(what);
    if (then_) then_(what);
  }

  // Joins; `then` hears of every event, and ends it with done().
  void join(std::function<void(const std::string&)> then) {
    then_ = std::move(then);
    rounds_->join();
    loop_->run();
  }
  void done() { loop_->stop(); }

  std::unique_ptr<io::Loop> loop_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<Script> script_ = std::make_shared<Script>();
  std::shared_ptr<std::atomic<bool>> interrupted_ = std::make_shared<std::atomic<bool>>(false);
  std::function<void(const std::string&)> then_;
  std::vector<std::string> told_;
  std::optional<JoinFailed> failed_;
  std::optional<Order> order_;
  std::unique_ptr<SharedRounds> rounds_;
};

TEST_F(SharedRoundsTest, JoinsAndKnowsTheRanksOfItsWorkers) {
  join([this](const std::string&) { done(); });
  EXPECT_THAT(told_, ElementsAre("joined round 3 with 2 workers"));
}

TEST_F(SharedRoundsTest, SaysWhyAJoinFailed) {
  script_->round = fail(ErrorKind::NotNeeded, "a spare, not needed");
  join([this](const std::string&) { done(); });
  ASSERT_TRUE(failed_);
  EXPECT_EQ(failed_->why, JoinFailure::NotNeeded);
}

TEST_F(SharedRoundsTest, NodesThatWantToComeInAreAnOrder) {
  join([this](const std::string& what) {
    if (what == "ordered") return done();
    const std::lock_guard lock(script_->mutex);
    script_->status = RendezvousStatus{.waiting = 2};
    rounds_->workers_run(0);
  });
  ASSERT_TRUE(order_);
  EXPECT_EQ(order_->kind, Order::Kind::Rejoin);
  EXPECT_EQ(order_->text, "2 nodes want to come in");
  EXPECT_EQ(order_->restart_count, std::nullopt);
}

TEST_F(SharedRoundsTest, WhatAnotherNodeSaysOfTheEndIsAnOrderAndKnownWhenJoining) {
  join([this](const std::string& what) {
    if (what == "join failed") return done();
    if (what == "ordered") {
      const std::lock_guard lock(script_->mutex);
      script_->round = fail(ErrorKind::Closed, "the run is closed");
      return rounds_->join();
    }
    ASSERT_TRUE(store_->set("regroup/verdict", "rank 7 failed"));
    rounds_->workers_run(0);
  });
  ASSERT_TRUE(order_);
  EXPECT_EQ(order_->kind, Order::Kind::RunFailed);
  EXPECT_EQ(order_->text, "rank 7 failed");
  ASSERT_TRUE(failed_);
  EXPECT_EQ(failed_->why, JoinFailure::RunFailed);
  EXPECT_EQ(failed_->end.text, "rank 7 failed");
}

TEST_F(SharedRoundsTest, AStoreThatDoesNotAnswerIsToldOnceAndSoIsItsReturn) {
  join([this](const std::string& what) {
    const std::lock_guard lock(script_->mutex);
    if (what.starts_with("joined")) {
      script_->status = fail(ErrorKind::Connection, "no store");
      rounds_->workers_run(0);
    } else if (what == "no store") {
      script_->status = RendezvousStatus{};
    } else {
      done();
    }
  });
  EXPECT_THAT(told_, ElementsAre("joined round 3 with 2 workers", "no store",
                                 "the rendezvous store answers again"));
}

TEST_F(SharedRoundsTest, AHangIsFoundThoughAnotherNodeIsDone) {
  script_->round->world_size = 2;
  ASSERT_TRUE(store_->set("regroup/stalled/1", "ended"));
  ::setenv("TORCH_ELASTIC_WORKER_IDENTICAL", "1", 1);
  std::uint64_t looks = 0;
  // Again and again: how often the rounds' thread sees it is not for the test to know.
  std::function<void()> look = [&] {
    if (told_.back() == "hangs") return;
    ++looks;
    rounds_->say_stalled(core::hang::Votes{.suspects = 2});
    loop_->post(look);
  };
  join([&](const std::string& what) {
    if (what.starts_with("joined")) {
      rounds_->workers_run(0);
      loop_->post(look);
    } else if (what == "hangs") {
      rounds_->say_where({{.rank = 0, .at = {"in read()", false}}});
    } else {
      done();
    }
  });
  ::unsetenv("TORCH_ELASTIC_WORKER_IDENTICAL");
  EXPECT_GE(looks, static_cast<std::uint64_t>(core::hang::kLooksAfterAnEnd));
  EXPECT_THAT(told_.back(), HasSubstr("in read()"));
}

TEST_F(SharedRoundsTest, ANodeThatIsDoneSaysThatItsWorkersHaveEnded) {
  script_->round->world_size = 2;
  ASSERT_TRUE(store_->set("regroup/goodbye", "2"));
  ::setenv("TORCH_ELASTIC_WORKER_IDENTICAL", "1", 1);
  join([this](const std::string& what) {
    if (what.starts_with("joined")) {
      rounds_->check_in(true, "");
      rounds_->leave(core::agent::Ending::Failed, false);
    }
    if (what == "left") done();
  });
  ::unsetenv("TORCH_ELASTIC_WORKER_IDENTICAL");
  EXPECT_EQ(store_->get("regroup/stalled/0").value_or(""), "ended");
}

TEST_F(SharedRoundsTest, ChecksInAndClosesTheRun) {
  join([this](const std::string& what) {
    if (what.starts_with("joined")) rounds_->check_in(true, "");
    if (what == "ordered") rounds_->leave(core::agent::Ending::Succeeded, true);
    if (what == "left") done();
  });
  EXPECT_EQ(order_->kind, Order::Kind::Over);
  EXPECT_THAT(script_->asked, ElementsAre("join", "close"));
}

TEST_F(SharedRoundsTest, LeavesWhileItWaitsForTheOthersAtTheEnd) {
  script_->round->world_size = 2;
  ASSERT_TRUE(store_->set("regroup/goodbye", "2"));
  // The other node's part in the exchange of ranks.
  ::setenv("TORCH_ELASTIC_WORKER_IDENTICAL", "1", 1);
  join([this](const std::string& what) {
    if (what.starts_with("joined")) {
      rounds_->check_in(true, "");
      rounds_->leave(core::agent::Ending::Failed, false);
    }
    if (what == "left") done();
  });
  ::unsetenv("TORCH_ELASTIC_WORKER_IDENTICAL");
  EXPECT_EQ(told_.back(), "left");
}

TEST_F(SharedRoundsTest, ARoundThatBreaksBehindANodeThatIsDoneGoesOnWithoutIt) {
  script_->round->world_size = 2;
  ::setenv("TORCH_ELASTIC_WORKER_IDENTICAL", "1", 1);
  join([this](const std::string& what) {
    if (what == "ordered") return done();
    const std::lock_guard lock(script_->mutex);
    script_->status = RendezvousStatus{.whole = false};
    rounds_->check_in(true, "");
  });
  ::unsetenv("TORCH_ELASTIC_WORKER_IDENTICAL");
  ASSERT_TRUE(order_);
  EXPECT_EQ(order_->kind, Order::Kind::Over);
  EXPECT_TRUE(order_->others_go_on);
}

TEST_F(SharedRoundsTest, LeavesWithoutClosingTheRunOfTheOthers) {
  join([this](const std::string& what) {
    if (what.starts_with("joined")) rounds_->leave(core::agent::Ending::Failed, false);
    if (what == "left") done();
  });
  EXPECT_THAT(script_->asked, ElementsAre("join", "leave"));
}

}  // namespace
}  // namespace regroup::runtime
