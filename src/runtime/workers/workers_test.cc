#include "regroup/workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "io/process/process_testing.h"

namespace regroup {
namespace {

using io::eventually;
using io::lives;
using io::text_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Workers that are shell scripts ($$$$ is what a shell sees as $$), with their output in files of a
// directory of the test.
class WorkersTest : public testing::Test {
 protected:
  WorkersSpec spec_of(const std::vector<std::string>& scripts) const {
    WorkersSpec spec;
    spec.cgroup = CgroupUse::Off;
    spec.warn = [](const std::string&) {};
    for (const std::string& script : scripts) {
      const int rank = static_cast<int>(spec.commands.size());
      spec.attempt.workers.push_back({rank, rank + 10, "default"});
      spec.commands.push_back(
          {.argv = {"/bin/sh", "-c", script},
           .environment = {{"PATH", "/usr/bin:/bin"}, {"HERE", scratch_.path()}}});
    }
    return spec;
  }

  std::shared_ptr<LogsSpecs> logs() const {
    DefaultLogsOptions options;
    options.log_dir = scratch_.file("logs");
    options.redirects.everybody = Streams::Both;
    return std::move(*make_default_logs_specs(std::move(options)));
  }

  std::unique_ptr<Workers> started(const WorkersSpec& spec) const {
    auto workers = Workers::start(spec, logs());
    if (!workers) ADD_FAILURE() << workers.error().message;
    return workers ? std::move(*workers) : nullptr;
  }
  std::unique_ptr<Workers> start(const std::vector<std::string>& scripts) const {
    return started(spec_of(scripts));
  }

  WorkersResult result_of(Workers& workers) const {
    const auto result = workers.wait(io::kGenerous);
    CHECK(result.has_value());
    return *result;
  }

  bool wrote(const std::string& name, const std::string& text) const {
    return eventually([&] { return text_of(scratch_.file(name)) == text; });
  }

  io::ScratchDirectory scratch_;
};

TEST_F(WorkersTest, RunToASuccess) {
  const auto workers = start({"echo a", "echo b; echo c >&2"});
  const auto result = result_of(*workers);
  EXPECT_TRUE(result.succeeded);
  EXPECT_THAT(result.exit_codes, ElementsAre(0, 0));
  EXPECT_FALSE(result.cause);
  EXPECT_TRUE(result.failures.empty() && result.survivors.empty());
  EXPECT_EQ(text_of(result.logs.workers[0].out.file), "a\n");
  EXPECT_EQ(text_of(result.logs.workers[1].err.file), "c\n");
}

TEST_F(WorkersTest, TheResultCanBeAskedForAgain) {
  const auto workers = start({"exit 4"});
  EXPECT_EQ(result_of(*workers).cause->exit_code, 4);
  EXPECT_EQ(workers->wait(0s)->cause->exit_code, 4);
  EXPECT_EQ(workers->wait(std::nullopt)->cause->exit_code, 4);
}

TEST_F(WorkersTest, AWaitWithALimitEnds) {
  const auto workers = start({"exec sleep 1000"});
  EXPECT_FALSE(workers->wait(0s));
  EXPECT_FALSE(workers->wait(1ms));
  workers->kill();
  EXPECT_TRUE(workers->wait(io::kGenerous));
}

TEST_F(WorkersTest, AFailureStopsTheOthers) {
  const auto workers = start({"exec sleep 1000", "echo because >&2; exit 7"});
  const auto result = result_of(*workers);
  EXPECT_FALSE(result.succeeded);
  ASSERT_TRUE(result.cause);
  EXPECT_EQ(result.cause->local_rank, 1);
  EXPECT_EQ(result.cause->global_rank, 11);
  EXPECT_EQ(result.cause->exit_code, 7);
  EXPECT_EQ(result.cause->tail, "because\n");
  EXPECT_THAT(result.exit_codes, ElementsAre(-SIGTERM, 7));
  ASSERT_EQ(result.failures.size(), 2u);
  EXPECT_TRUE(result.failures[1].stopped_by_us);
}

TEST_F(WorkersTest, HavePidsByLocalRank) {
  const auto workers =
      start({"echo $$$$ > $HERE/0; exec sleep 1000", "echo $$$$ > $HERE/1; exec sleep 1000"});
  const auto pids = workers->pids();
  ASSERT_EQ(pids.size(), 2u);
  for (const auto& [rank, pid] : pids) {
    EXPECT_TRUE(wrote(std::to_string(rank), std::to_string(pid) + "\n"));
    EXPECT_TRUE(lives(pid));
  }
}

TEST_F(WorkersTest, AStopSendsItsSignalAndWaits) {
  const auto workers =
      start({"trap 'kill $!; exit 0' USR1; sleep 1000 & echo ready > $HERE/ready; wait"});
  ASSERT_TRUE(wrote("ready", "ready\n"));
  workers->stop(SIGUSR1, io::kGenerous);
  const auto result = result_of(*workers);
  EXPECT_THAT(result.exit_codes, ElementsAre(0));
  EXPECT_FALSE(result.cause);
}

TEST_F(WorkersTest, AStopKillsAfterTheGrace) {
  const auto workers = start({"trap '' TERM; echo ready > $HERE/ready; while :; do sleep 1; done"});
  ASSERT_TRUE(wrote("ready", "ready\n"));
  workers->stop(SIGTERM, 1ms);
  const auto result = result_of(*workers);
  EXPECT_THAT(result.exit_codes, ElementsAre(-SIGKILL));
  EXPECT_FALSE(result.cause);  // It was stopped on order, so there is no cause.
  EXPECT_FALSE(result.succeeded);
}

TEST_F(WorkersTest, ASecondStopShortensTheGrace) {
  const auto workers = start({"trap '' TERM; echo ready > $HERE/ready; while :; do sleep 1; done"});
  ASSERT_TRUE(wrote("ready", "ready\n"));
  workers->stop(SIGTERM, 1h);
  EXPECT_FALSE(workers->wait(1ms));
  workers->stop(SIGTERM, 1ms);
  EXPECT_THAT(result_of(*workers).exit_codes, ElementsAre(-SIGKILL));
}

TEST_F(WorkersTest, AKillIsAtOnceAndTakesChildrenAlong) {
  const auto workers =
      start({"trap '' TERM; setsid sleep 1000 & echo $! > $HERE/child; wait; sleep 1000"});
  ASSERT_TRUE(eventually([&] { return text_of(scratch_.file("child")).ends_with("\n"); }));
  const pid_t child = std::stoi(text_of(scratch_.file("child")));
  workers->kill();
  EXPECT_THAT(result_of(*workers).exit_codes, ElementsAre(-SIGKILL));
  EXPECT_TRUE(eventually([&] { return !lives(child); }));
}

TEST_F(WorkersTest, OrdersAfterTheEndDoNothing) {
  const auto workers = start({"true"});
  EXPECT_TRUE(result_of(*workers).succeeded);
  workers->stop(SIGTERM, 0s);
  workers->kill();
  workers->forward(SIGUSR1);
  EXPECT_TRUE(result_of(*workers).succeeded);
}

TEST_F(WorkersTest, AForwardedSignalReachesTheWorkerAlone) {
  // Its child would die of it; the worker ends with whether that one still lives.
  const auto workers =
      start({"sleep 1000 & trap 'kill -0 $!; code=$?; kill $!; exit $code' USR1; echo ready > "
             "$HERE/ready; "
             "wait; exit 9"});
  ASSERT_TRUE(wrote("ready", "ready\n"));
  workers->forward(SIGUSR1);
  EXPECT_THAT(result_of(*workers).exit_codes, ElementsAre(0));
}

TEST_F(WorkersTest, TheDestructorKillsWhatRuns) {
  auto workers = start({"trap '' TERM; echo ready > $HERE/ready; while :; do sleep 1; done"});
  ASSERT_TRUE(wrote("ready", "ready\n"));
  const pid_t pid = workers->pids().at(0);
  workers.reset();
  EXPECT_FALSE(lives(pid));
}

TEST_F(WorkersTest, BelongToAThreadOfTheirOwn) {
  std::unique_ptr<Workers> workers;
  // The thread that starts them ends at once; the workers must not die with it.
  std::thread([&] { workers = start({"echo $$$$ > $HERE/pid; exec sleep 1000"}); }).join();
  ASSERT_TRUE(eventually([&] { return text_of(scratch_.file("pid")).ends_with("\n"); }));
  EXPECT_FALSE(workers->wait(20ms));
  EXPECT_TRUE(lives(workers->pids().at(0)));
}

TEST_F(WorkersTest, GetExactlyTheirEnvironmentAndTheErrorFile) {
  auto spec = spec_of({""});
  spec.commands[0].argv = {"/usr/bin/env"};
  spec.commands[0].environment = {{"ONE", "1"}};
  const auto workers = started(spec);
  const auto result = result_of(*workers);
  std::string printed = text_of(result.logs.workers[0].out.file);
  constexpr std::size_t kMarkSize = 32;  // Random letters.
  const auto mark = printed.find("REGROUP_GUARD=");
  ASSERT_NE(mark, std::string::npos) << printed;
  printed.erase(mark, std::string("REGROUP_GUARD=\n").size() + kMarkSize);
  EXPECT_EQ(printed, "ONE=1\nTORCHELASTIC_ERROR_FILE=" + result.logs.workers[0].error_file + "\n");
}

TEST_F(WorkersTest, RunInTheirDirectory) {
  auto spec = spec_of({"pwd"});
  spec.commands[0].directory = scratch_.path();
  const auto workers = started(spec);
  const auto result = result_of(*workers);
  EXPECT_EQ(text_of(result.logs.workers[0].out.file), scratch_.path() + "\n");
}

TEST_F(WorkersTest, OneThatCannotStartStartsNobody) {
  auto spec = spec_of({"echo ran > $HERE/ran; exec sleep 1000", "true"});
  spec.commands[1].argv = {"/no/such/program"};
  const auto started = Workers::start(spec, logs());
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().kind, ErrorKind::InvalidArgument);
  EXPECT_THAT(started.error().message, StartsWith("rank 11 (local rank 1): cannot start "));
  EXPECT_THAT(started.error().message, HasSubstr("'/no/such/program': no such file"));
}

TEST_F(WorkersTest, WrongSpecsAreRefused) {
  EXPECT_THAT(Workers::start({}, logs()).error().message, HasSubstr("no workers to start"));

  auto nameless = spec_of({"true", "true"});
  nameless.attempt.workers.pop_back();
  EXPECT_THAT(Workers::start(nameless, logs()).error().message, HasSubstr("2 commands, 1 names"));

  auto empty = spec_of({"true"});
  empty.commands[0].argv.clear();
  EXPECT_THAT(Workers::start(empty, logs()).error().message, HasSubstr("argv is empty"));

  auto limited = spec_of({"true"});
  limited.memory_limit = 1 << 30;
  EXPECT_THAT(Workers::start(limited, logs()).error().message, HasSubstr("needs control groups"));
}

TEST_F(WorkersTest, TwoGroupsDoNotDisturbEachOther) {
  const auto first = start({"exec sleep 1000"});
  const auto second = start({"exit 5"});
  EXPECT_EQ(result_of(*second).cause->exit_code, 5);
  EXPECT_FALSE(first->wait(1ms));
  EXPECT_TRUE(lives(first->pids().at(0)));
}

}  // namespace
}  // namespace regroup
