// The agent's host with rounds and workers that the test plays: no socket, no process, no waiting.
#include "runtime/agent/agent_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace regroup::runtime {
namespace {

using core::agent::Order;
using testing::ElementsAre;
using testing::HasSubstr;

// Writes down what it is asked for; the test answers through events().
class PlayedRounds final : public Rounds {
 public:
  PlayedRounds(RoundEvents events, std::vector<std::string>& asked)
      : events_(std::move(events)), asked_(asked) {}

  RoundEvents& events() { return events_; }
  // Called for each, after it was written down.
  std::function<void(const std::string&)> on_asked;

  void join() override { ask("join"); }
  void give_up_join() override { ask("give up the join"); }
  void workers_run(int restart_count) override { ask("run " + std::to_string(restart_count)); }
  void workers_ended() override { ask("ended"); }
  void failed(const WorkerFailure& failure) override {
    ask("failed: " + std::to_string(failure.rank));
  }
  bool warn(int signal) override {
    ask("warn " + std::to_string(signal));
    return true;
  }
  void say_stalled(std::optional<core::hang::Votes> /*votes*/) override {}
  void say_where(std::vector<core::hang::RankAt> /*ours*/) override {}
  void check_in(bool succeeded, const std::string& /*cause*/) override {
    ask(succeeded ? "check in" : "check in, failed");
  }
  void leave(core::agent::Ending /*ending*/, bool close) override {
    ask(close ? "leave and close" : "leave");
  }

 private:
  void ask(const std::string& what) {
    asked_.push_back(what);
    if (on_asked) on_asked(what);
  }

  RoundEvents events_;
  std::vector<std::string>& asked_;
};

// Workers that end as their plan says, or when they are told to.
class PlayedWorkers final : public WorkerBackend {
 public:
  // With what the worker ends by itself, by its restart count; nothing: it runs until it is
  // stopped.
  std::function<std::optional<int>(int restart_count)> plan;
  std::vector<GroupToStart> groups;
  bool can_be_started = true;
  int interruption = 0;  // Not 0: this signal comes during the start, which is given up.

  Result<void> start(const GroupToStart& group, Ended ended) override {
    if (!can_be_started) return fail(ErrorKind::Io, "no room");
    if (interruption != 0) {
      ::raise(interruption);
      return fail(ErrorKind::Cancelled, "interrupted");
    }
    groups.push_back(group);
    ended_ = std::move(ended);
    alive_ = 1;
    if (const auto code = plan(group.attempt.restart_count)) end({.code = *code});
    return {};
  }
  void signal(int /*local_rank*/, int number) override { signals.push_back(number); }
  void signal_all(int number) override {
    signals_to_all.push_back(number);
    left.clear();
    end({.signal = number});
  }
  void kill_all() override { end({.signal = SIGKILL}); }
  int count_alive() override { return alive_ + static_cast<int>(left.size()); }
  std::vector<LeftBehind> left_behind() override { return left; }
  void let_go() override { has_let_go = true; }

  std::vector<int> signals;
  std::vector<int> signals_to_all;
  std::vector<LeftBehind> left;  // Of the workers.
  bool has_let_go = false;

 private:
  void end(WorkerExit exit) {
    if (std::exchange(alive_, 0) == 1) ended_(0, exit);
  }
  Ended ended_;
  int alive_ = 0;
};

class AgentHostTest : public testing::Test {
 protected:
  void SetUp() override {
    WorkersSpec spec;
    spec.warn = [](const std::string&) {};
    console_ = std::move(*WorkerHost::open(spec, false));
    loop_ = std::move(*io::Loop::open());
  }
  void TearDown() override { host_.reset(); }

  AgentOptions options_of(std::optional<int> code, int max_restarts = 3) {
    return options_by([code](int) { return code; }, max_restarts);
  }
  AgentOptions options_by(std::function<std::optional<int>(int)> plan, int max_restarts = 3) {
    workers_->plan = std::move(plan);
    AgentOptions options;
    options.spec = {.local_world_size = 1, .max_restarts = max_restarts};
    options.rendezvous.run_id = "r";
    options.backend = workers_;
    options.on_event = [this](const AgentEvent& event) {
      if (const auto* failed = std::get_if<AgentEvent::Failed>(&event.what))
        failures_.push_back(*failed);
    };
    return options;
  }

  // Plays the rounds by these answers until the agent's part is over.
  RunResult run(AgentOptions options, std::function<void(const std::string&)> answer) {
    host_ =
        std::make_unique<AgentHost>(*loop_, *console_, std::move(options), [&](RoundEvents events) {
          auto rounds = std::make_unique<PlayedRounds>(std::move(events), asked_);
          rounds_ = rounds.get();
          return rounds;
        });
    // What the rounds answer comes from the loop, as it does in a real run.
    rounds_->on_asked = [this, answer = std::move(answer)](const std::string& what) {
      loop_->post([answer, what] { answer(what); });
    };
    host_->begin();
    loop_->run();
    return host_->take_result();
  }

  void let_in(std::optional<std::int64_t> restart_count = {}) {
    rounds_->events().joined({.info = {.store = nullptr,
                                       .round = 0,
                                       .rank = 0,
                                       .world_size = 2,
                                       .bootstrap = {.address = "127.0.0.1", .port = 1},
                                       .nodes = {},
                                       .restart_count = restart_count},
                              .ranks = {.base_global_rank = 4,
                                        .global_world_size = 8,
                                        .base_role_rank = 4,
                                        .role_world_size = 8}});
  }
  void order(Order order) { rounds_->events().ordered(std::move(order)); }

  std::unique_ptr<io::Loop> loop_;
  std::unique_ptr<WorkerHost> console_;
  std::shared_ptr<PlayedWorkers> workers_ = std::make_shared<PlayedWorkers>();
  std::vector<std::string> asked_;
  std::vector<AgentEvent::Failed> failures_;
  PlayedRounds* rounds_ = nullptr;
  std::unique_ptr<AgentHost> host_;
};

TEST_F(AgentHostTest, GoesThroughARunThatSucceeds) {
  const RunResult result = run(options_of(0), [this](const std::string& what) {
    if (what == "join") let_in(0);
    if (what == "check in") order({.kind = Order::Kind::Over});
    if (what == "leave and close") rounds_->events().left();
  });
  EXPECT_EQ(result.ending, RunResult::Ending::Succeeded);
  EXPECT_THAT(asked_, ElementsAre("join", "run 0", "ended", "check in", "leave and close"));
}

const LeftBehind kUpload{.pid = 12, .name = "aws", .is_away = true};

TEST_F(AgentHostTest, AnUploadThatIsWaitedForHoldsUpNoOtherNode) {
  workers_->left = {kUpload};
  bool has_left = false;
  const RunResult result = run(options_of(0), [&](const std::string& what) {
    if (what == "join") let_in(0);
    if (what == "check in") order({.kind = Order::Kind::Over});
    if (what == "leave and close") {
      rounds_->events().left();
      has_left = true;
      EXPECT_EQ(workers_->left.size(), 1u);
      workers_->left.clear();  // It is done.
    }
  });
  EXPECT_TRUE(has_left);
  EXPECT_EQ(result.ending, RunResult::Ending::Succeeded);
  EXPECT_TRUE(workers_->signals_to_all.empty());
  EXPECT_THAT(asked_, ElementsAre("join", "run 0", "ended", "check in", "leave and close"));
}

TEST_F(AgentHostTest, ASignalEndsTheWaitForAnUpload) {
  workers_->left = {kUpload};
  const RunResult result = run(options_of(0), [&](const std::string& what) {
    if (what == "join") let_in(0);
    if (what == "check in") order({.kind = Order::Kind::Over});
    if (what == "leave and close") {
      rounds_->events().left();
      host_->on_signal({.number = SIGTERM});
    }
  });
  EXPECT_EQ(result.ending, RunResult::Ending::Signalled);
  EXPECT_EQ(result.signal, SIGTERM);
  EXPECT_THAT(workers_->signals_to_all, ElementsAre(SIGTERM));
}

TEST_F(AgentHostTest, AnUploadIsEndedBeforeTheWorkersAreStartedAgain) {
  workers_->left = {kUpload};
  int joins = 0;
  const RunResult result = run(options_of(0), [&](const std::string& what) {
    if (what == "join") let_in(joins++);
    if (what == "check in" && joins == 1)
      order(
          {.kind = Order::Kind::Rejoin, .text = "rank 0", .is_failure = true, .restart_count = 1});
    else if (what == "check in")
      order({.kind = Order::Kind::Over});
    if (what == "run 1") {
      EXPECT_THAT(workers_->signals_to_all, ElementsAre(SIGTERM));
    }
    if (what == "leave and close") rounds_->events().left();
  });
  EXPECT_EQ(result.ending, RunResult::Ending::Succeeded);
  EXPECT_THAT(asked_, ElementsAre("join", "run 0", "ended", "check in", "join", "run 1", "ended",
                                  "check in", "leave and close"));
}

TEST_F(AgentHostTest, WhatMayOutliveItIsLeftWhenTheNodeHasLeft) {
  workers_->left = {kUpload};
  AgentOptions options = options_of(0);
  options.workers.children = Children::Leave;
  const RunResult result = run(std::move(options), [&](const std::string& what) {
    if (what == "join") let_in(0);
    if (what == "check in") order({.kind = Order::Kind::Over});
    if (what == "leave and close") {
      EXPECT_FALSE(workers_->has_let_go);
      rounds_->events().left();
    }
  });
  EXPECT_EQ(result.ending, RunResult::Ending::Succeeded);
  EXPECT_TRUE(workers_->has_let_go);
  EXPECT_EQ(workers_->left.size(), 1u);
  EXPECT_TRUE(workers_->signals_to_all.empty());
}

TEST_F(AgentHostTest, TellsOfAFailureBeforeItsWorkersHaveEndedAndStartsAgainAsItIsTold) {
  int joins = 0;
  const RunResult result =
      run(options_by([](int restart) -> std::optional<int> { return restart == 0 ? 7 : 0; }),
          [&](const std::string& what) {
            if (what == "join") let_in(joins++);
            if (what == "failed: 4")
              order({.kind = Order::Kind::Rejoin,
                     .text = "rank 4 failed",
                     .is_failure = true,
                     .is_ours = true,
                     .restart_count = 1});
            if (what == "check in") order({.kind = Order::Kind::Over});
            if (what == "leave and close") rounds_->events().left();
          });
  EXPECT_EQ(result.ending, RunResult::Ending::Succeeded);
  EXPECT_EQ(result.restarts, 1);
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_EQ(failures_[0].failure.exit_code, 7);
  EXPECT_EQ(failures_[0].then, AgentEvent::Failed::Then::Restart);
  EXPECT_EQ(failures_[0].restart, 1);
  EXPECT_THAT(asked_, ElementsAre("join", "run 0", "failed: 4", "ended", "join", "run 1", "ended",
                                  "check in", "leave and close"));
}

TEST_F(AgentHostTest, StopsItsWorkersForAFailureElsewhere) {
  const RunResult result = run(options_of(std::nullopt), [this](const std::string& what) {
    if (what == "join") let_in(0);
    if (what == "run 0")
      order({.kind = Order::Kind::RunFailed,
             .text = "rank 0 on n1 failed",
             .is_failure = true,
             .note = "a crash loop"});
    if (what == "leave") rounds_->events().left();
  });
  EXPECT_EQ(result.ending, RunResult::Ending::Failed);
  EXPECT_EQ(result.cause_elsewhere, "rank 0 on n1 failed");
  EXPECT_THAT(asked_, ElementsAre("join", "run 0", "ended", "leave"));
}

TEST_F(AgentHostTest, AFailureHereThatWasNotSeenBeforeTheVerdictIsNotTheCause) {
  const RunResult result = run(options_of(7), [this](const std::string& what) {
    if (what == "join") let_in(0);
    if (what == "failed: 4")
      order({.kind = Order::Kind::RunFailed, .text = "rank 0 on n1 failed", .is_failure = true});
    if (what == "leave") rounds_->events().left();
  });
  EXPECT_EQ(result.ending, RunResult::Ending::Failed);
  EXPECT_EQ(result.cause_elsewhere, "rank 0 on n1 failed");
  EXPECT_FALSE(result.cause);
}

TEST_F(AgentHostTest, AnEndThatIsNoWorkersFailureIsAnErrorOfTheRun) {
  const RunResult result = run(options_of(std::nullopt), [this](const std::string& what) {
    if (what == "join") let_in(0);
    if (what == "run 0") order({.kind = Order::Kind::RunFailed, .text = "1 node wants to come in"});
    if (what == "leave") rounds_->events().left();
  });
  EXPECT_EQ(result.ending, RunResult::Ending::Failed);
  EXPECT_EQ(result.cause_elsewhere, "");
  EXPECT_EQ(result.error.message, "the run has ended: 1 node wants to come in");
}

TEST_F(AgentHostTest, AFailureOfOurOwnThatEndsTheRunIsTheCause) {
  const RunResult result = run(options_of(7), [this](const std::string& what) {
    if (what == "join") let_in(3);
    if (what == "failed: 4")
      order({.kind = Order::Kind::RunFailed,
             .text = "rank 4 failed",
             .is_failure = true,
             .is_ours = true});
    if (what == "leave") rounds_->events().left();
  });
  EXPECT_EQ(result.ending, RunResult::Ending::Failed);
  ASSERT_TRUE(result.cause);
  EXPECT_EQ(result.cause->exit_code, 7);
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_EQ(failures_[0].then, AgentEvent::Failed::Then::End);
  EXPECT_EQ(result.cause_elsewhere, "");
}

// As after Ctrl-C: the worker's end is seen a moment before our own signal.
TEST_F(AgentHostTest, AWorkerThatWasStoppedWithUsHasNotFailed) {
  const RunResult result = run(options_of(143, 3), [this](const std::string& what) {
    if (what == "join") let_in(0);
    if (what == "ended") host_->on_signal({.number = SIGTERM});
    if (what == "leave") rounds_->events().left();
  });
  EXPECT_EQ(result.ending, RunResult::Ending::Signalled);
  EXPECT_EQ(result.signal, SIGTERM);
  EXPECT_FALSE(result.cause);
  EXPECT_TRUE(failures_.empty());
  EXPECT_THAT(asked_, ElementsAre("join", "run 0", "ended", "leave"));
}

TEST_F(AgentHostTest, CountsItsOwnRestartsWhereNobodyDoes) {
  const RunResult result = run(options_of(7, 1), [this](const std::string& what) {
    if (what == "join") let_in();
    if (what == "check in, failed") order({.kind = Order::Kind::Over});
    if (what == "leave and close") rounds_->events().left();
  });
  EXPECT_EQ(result.ending, RunResult::Ending::Failed);
  EXPECT_THAT(asked_, ElementsAre("join", "run 0", "failed: 4", "ended", "join", "run 1",
                                  "failed: 4", "ended", "check in, failed", "leave and close"));
}

TEST_F(AgentHostTest, ASignalGivesTheJoinUp) {
  const RunResult result = run(options_of(0), [this](const std::string& what) {
    if (what == "join") host_->on_signal({.number = SIGTERM});
    if (what == "give up the join")
      rounds_->events().join_failed({.why = core::agent::JoinFailure::GivenUp,
                                     .error = {ErrorKind::Cancelled, "interrupted"}});
    if (what == "leave") rounds_->events().left();
  });
  EXPECT_EQ(result.ending, RunResult::Ending::Signalled);
  EXPECT_EQ(result.signal, SIGTERM);
}

TEST_F(AgentHostTest, SaysOnceThatTheCoordinatorIsGoneAndWhenItIsBack) {
  std::vector<std::string> lines;
  AgentOptions options = options_of(std::nullopt);
  options.on_event = [&](const AgentEvent& event) {
    if (const auto* waiting = std::get_if<AgentEvent::Waiting>(&event.what))
      lines.push_back(waiting->text);
  };
  run(std::move(options), [this](const std::string& what) {
    if (what == "join") let_in(0);
    if (what == "run 0") {
      rounds_->events().reached("the coordinator cannot be reached: closed");
      rounds_->events().reached("");
      host_->on_signal({.number = SIGTERM});
    }
    if (what == "leave") rounds_->events().left();
  });
  ASSERT_GE(lines.size(), 2u);
  EXPECT_EQ(lines[0], "the coordinator cannot be reached: closed");
  EXPECT_EQ(lines[1], "the coordinator answers again");
}

TEST_F(AgentHostTest, StartsWorkersWithTheirRanksInTheEnvironment) {
  run(options_of(0), [this](const std::string& what) {
    if (what == "join") let_in(2);
    if (what == "check in") order({.kind = Order::Kind::Over});
    if (what == "leave and close") rounds_->events().left();
  });
  ASSERT_EQ(workers_->groups.size(), 1u);
  EXPECT_EQ(workers_->groups[0].attempt.restart_count, 2);
  const auto& environment = workers_->groups[0].commands.at(0).environment;
  EXPECT_EQ(environment.at("RANK"), "4");
  EXPECT_EQ(environment.at("WORLD_SIZE"), "8");
  EXPECT_EQ(environment.at("TORCHELASTIC_RESTART_COUNT"), "2");
  EXPECT_EQ(environment.at("MASTER_ADDR"), "127.0.0.1");
}

TEST_F(AgentHostTest, WorkersThatCannotBeStartedEndItsPart) {
  AgentOptions options = options_of(0);
  workers_->can_be_started = false;
  const RunResult result = run(std::move(options), [this](const std::string& what) {
    if (what == "join") let_in(0);
    if (what.starts_with("leave")) rounds_->events().left();
  });
  EXPECT_EQ(result.ending, RunResult::Ending::CouldNotStart);
  EXPECT_EQ(result.error.message, "no room");
}

TEST_F(AgentHostTest, ASignalDuringTheStartIsTheEndOfItsPart) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, nullptr);
  workers_->interruption = SIGTERM;
  AgentOptions options = options_of(0);
  options.signals_to_handle = {SIGTERM};
  const RunResult result = run(std::move(options), [this](const std::string& what) {
    if (what == "join") let_in(0);
    if (what == "leave") rounds_->events().left();
  });
  int number = 0;
  ::sigwait(&term, &number);
  ::pthread_sigmask(SIG_UNBLOCK, &term, nullptr);
  EXPECT_EQ(result.ending, RunResult::Ending::Signalled);
  EXPECT_EQ(result.signal, SIGTERM);
  EXPECT_THAT(asked_, ElementsAre("join", "leave"));
}

TEST_F(AgentHostTest, HandsASharedSignalToItsWorkersAndToTheOtherNodes) {
  run(options_of(std::nullopt), [this](const std::string& what) {
    if (what == "join") let_in(0);
    if (what == "run 0") host_->share({.number = SIGUSR1});
    if (what == "warn 10") host_->on_signal({.number = SIGTERM});
    if (what == "leave") rounds_->events().left();
  });
  EXPECT_THAT(workers_->signals, ElementsAre(SIGUSR1));
  EXPECT_THAT(asked_, ElementsAre("join", "run 0", "warn 10", "ended", "leave"));
}

TEST_F(AgentHostTest, HandsOnASignalThatCameToAnotherNodeButNoneThatCannotBeCaught) {
  run(options_of(std::nullopt), [this](const std::string& what) {
    if (what == "join") let_in(0);
    if (what == "run 0") {
      rounds_->events().warned(SIGUSR2, "n2");
      rounds_->events().warned(SIGKILL, "n2");
      host_->on_signal({.number = SIGTERM});
    }
    if (what == "leave") rounds_->events().left();
  });
  EXPECT_THAT(workers_->signals, ElementsAre(SIGUSR2));
}

}  // namespace
}  // namespace regroup::runtime
