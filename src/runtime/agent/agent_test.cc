// The agent as an object: run on one thread, asked and stopped from another.
#include "regroup/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace regroup {
namespace {

using testing::HasSubstr;

// Workers of another thread: each ends when it is told to, and is told of from there.
class Elsewhere final : public WorkerBackend {
 public:
  ~Elsewhere() override { join(); }
  Result<void> start(const GroupToStart& group, Ended ended) override {
    join();
    workers_ = alive_ = static_cast<int>(group.commands.size());
    ended_ = std::move(ended);
    environment = group.commands.front().environment;
    started.set_value();
    return {};
  }
  void signal(int /*local_rank*/, int /*number*/) override {}
  void signal_all(int number) override { end_all({.signal = number}); }
  void kill_all() override { end_all({.signal = SIGKILL}); }
  int count_alive() override { return alive_; }
  void shut_down() override { was_shut_down = true; }

  void end_all(WorkerExit exit) {
    join();
    thread_ = std::thread([this, exit] {
      alive_ = 0;
      for (int rank = 0; rank < workers_; ++rank) ended_(rank, exit);
      ended_(workers_, exit);  // There is no such worker.
      ended_(0, {.code = 9});  // It has ended already.
    });
  }

  std::promise<void> started;
  std::map<std::string, std::string> environment;  // Of the first worker.
  bool was_shut_down = false;

 private:
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  int workers_ = 0;
  std::atomic<int> alive_ = 0;
  Ended ended_;
  std::thread thread_;
};

AgentOptions options_with(std::shared_ptr<WorkerBackend> backend) {
  AgentOptions options;
  options.spec = {.local_world_size = 2, .max_restarts = 0};
  options.rendezvous = {.backend = "c10d", .endpoint = "localhost:0", .run_id = "object"};
  options.backend = std::move(backend);
  options.workers.warn = [](const std::string&) {};
  return options;
}

TEST(Agent, IsAskedFromAnotherThread) {
  const auto backend = std::make_shared<Elsewhere>();
  auto agent = Agent::create(options_with(backend));
  ASSERT_TRUE(agent) << agent.error().message;
  EXPECT_EQ((*agent)->status().doing, "nothing");
  std::thread asker([&] {
    backend->started.get_future().wait();
    AgentStatus now;
    do {
      now = (*agent)->status();
    } while (now.doing != "running");
    EXPECT_EQ(now.state, WorkerState::Healthy);
    EXPECT_EQ(now.round, 0);
    ASSERT_EQ(now.workers.size(), 2u);
    EXPECT_EQ(now.workers[1].rank, 1);
    EXPECT_EQ(now.workers[1].state, "running");
    backend->end_all({});
  });
  const RunResult result = (*agent)->run();
  asker.join();
  EXPECT_EQ(result.ending, RunResult::Ending::Succeeded);
  EXPECT_TRUE(backend->was_shut_down);
  EXPECT_EQ((*agent)->status().state, WorkerState::Succeeded);
}

TEST(Agent, IsStoppedFromAnotherThread) {
  const auto backend = std::make_shared<Elsewhere>();
  auto agent = Agent::create(options_with(backend));
  ASSERT_TRUE(agent) << agent.error().message;
  std::thread stopper([&] {
    backend->started.get_future().wait();
    (*agent)->stop();
  });
  const RunResult result = (*agent)->run();
  stopper.join();
  EXPECT_EQ(result.ending, RunResult::Ending::Signalled);
  EXPECT_EQ(result.signal, SIGTERM);
  (*agent)->stop();  // Too late, and harmless.
}

TEST(Agent, NeedsACommandAndNoLogs) {
  AgentOptions options;
  options.spec = {.command = {"/bin/true"}, .max_restarts = 0};
  options.rendezvous = {.backend = "c10d", .endpoint = "localhost:0", .run_id = "bare"};
  options.workers.warn = [](const std::string&) {};
  const auto result = run_agent(std::move(options));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->ending, RunResult::Ending::Succeeded);
}

TEST(Agent, RestartsThreeTimesUnlessToldOtherwise) {
  EXPECT_EQ(WorkerSpec{}.max_restarts, 3);
  AgentOptions options = options_with(std::make_shared<Elsewhere>());
  options.spec.max_restarts = -1;
  const auto agent = Agent::create(std::move(options));
  ASSERT_FALSE(agent);
  EXPECT_EQ(agent.error().message, "max_restarts is -1; it must be 0 (no restart) or more");
}

TEST(Agent, ACallerMaySayWhereTheWorkersFindTheirStore) {
  const auto backend = std::make_shared<Elsewhere>();
  AgentOptions options = options_with(backend);
  options.spec.master_addr = "store.example";
  options.spec.master_port = 4711;
  std::optional<AgentEvent::Joined> joined;
  options.on_event = [&](const AgentEvent& event) {
    if (const auto* one = std::get_if<AgentEvent::Joined>(&event.what)) joined = *one;
    if (std::holds_alternative<AgentEvent::Started>(event.what)) backend->end_all({});
  };
  const auto result = run_agent(std::move(options));
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->master_addr, "store.example");
  EXPECT_EQ(joined->master_port, 4711);
  EXPECT_THAT(joined->ranks, testing::ElementsAre(0, 1));
  EXPECT_EQ(joined->role_world_size, 2);
  EXPECT_EQ(backend->environment["MASTER_ADDR"], "store.example");
  EXPECT_EQ(backend->environment["MASTER_PORT"], "4711");
}

TEST(Agent, SaysWhyAWorkerOfAnotherBackendFailed) {
  class Explains final : public WorkerBackend {
   public:
    Result<void> start(const GroupToStart& /*group*/, Ended ended) override {
      ended(1, {.code = 3});
      ended(0, {.code = 0});
      return {};
    }
    void signal(int /*local_rank*/, int /*number*/) override {}
    void signal_all(int /*number*/) override {}
    void kill_all() override {}
    int count_alive() override { return 0; }
    void explain(ProcessFailure& failure) override { failure.message = "no GPU"; }
  };
  auto agent = Agent::create(options_with(std::make_shared<Explains>()));
  ASSERT_TRUE(agent) << agent.error().message;
  const RunResult result = (*agent)->run();
  EXPECT_EQ(result.ending, RunResult::Ending::Failed);
  ASSERT_TRUE(result.cause);
  EXPECT_EQ(result.cause->global_rank, 1);
  EXPECT_EQ(result.cause->exit_code, 3);
  EXPECT_EQ(result.cause->message, "no GPU");
}

TEST(Agent, RefusesWhatOnlyLocalProcessesCanHave) {
  AgentOptions hangs = options_with(std::make_shared<Elsewhere>());
  hangs.workers.hang_timeout = 10s;
  EXPECT_THAT(Agent::create(std::move(hangs)).error().message, HasSubstr("hangs"));
  AgentOptions timers = options_with(std::make_shared<Elsewhere>());
  timers.watchdog.enabled = true;
  EXPECT_THAT(Agent::create(std::move(timers)).error().message, HasSubstr("timers"));
}

TEST(Agent, NeedsACommandForProcesses) {
  EXPECT_THAT(Agent::create(options_with(nullptr)).error().message, HasSubstr("command"));
}

}  // namespace
}  // namespace regroup
