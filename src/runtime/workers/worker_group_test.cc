#include "runtime/workers/worker_group.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>

#include "io/loop/clock.h"
#include "runtime/workers/local_processes.h"

namespace regroup::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// Files for all workers, nothing on the console.
class FilesOnly final : public LogsSpecs {
 public:
  explicit FilesOnly(std::string folder) : folder_(std::move(folder)) {}
  Result<LogRoutes> routes(const Attempt& attempt) override {
    LogRoutes routes;
    routes.directory = folder_;
    for (const WorkerName& name : attempt.workers) {
      const std::string stem = folder_ + "/" + std::to_string(name.local_rank);
      routes.workers.push_back({.out = {stem + ".out", Console::No},
                                .err = {stem + ".err", Console::No},
                                .error_file = stem + ".json"});
    }
    return routes;
  }
  std::string root() const override { return folder_; }

 private:
  std::string folder_;
};

// A loop, a pump without a console, and one group after another.
class WorkerGroupTest : public testing::Test {
 protected:
  void SetUp() override {
    WorkersSpec spec;
    spec.warn = [](const std::string&) {};
    host_ = std::move(*WorkerHost::open(spec));
    char name[] = "/tmp/worker_group_XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  void TearDown() override {
    group_.reset();
    processes_.reset();
    host_.reset();
    std::filesystem::remove_all(folder_);
  }

  WorkersSpec spec_of(const std::vector<std::string>& scripts) {
    WorkersSpec spec;
    spec.cgroup = CgroupUse::Off;
    spec.grace = 100ms;
    for (std::size_t i = 0; i < scripts.size(); ++i) {
      const int rank = static_cast<int>(i);
      spec.attempt.workers.push_back({rank, rank + 100, "trainer"});
      spec.commands.push_back(
          {.argv = {"/bin/sh", "-c", scripts[i]}, .environment = {{"PATH", "/usr/bin:/bin"}}});
    }
    return spec;
  }

  Result<void> start(const WorkersSpec& spec) {
    result_.reset();
    told_.clear();
    // One loop for each group: a loop that was stopped stays so.
    group_.reset();
    processes_.reset();
    loop_ = std::move(*io::Loop::open());
    processes_ = std::make_unique<LocalProcesses>(*loop_, *host_, spec,
                                                  std::make_shared<FilesOnly>(folder_));
    group_ = std::make_unique<WorkerGroup>(
        *loop_, Backend{*processes_, processes_.get()}, spec,
        GroupEvents{.failed = [this](const ProcessFailure& f) { told_.push_back(f.local_rank); },
                    .over =
                        [this](WorkersResult result) {
                          result_ = std::move(result);
                          loop_->stop();
                        }});
    return group_->start();
  }

  const WorkersResult& run(const WorkersSpec& spec) {
    const auto started = start(spec);
    EXPECT_TRUE(started) << started.error().message;
    loop_->run();
    return *result_;
  }

  // The one worker gets SIGTERM for being too late, once it has written something.
  void end_once_ready(const WorkersSpec& spec) {
    ASSERT_TRUE(start(spec));
    io::Timer timer(*loop_);
    std::function<void()> look = [&] {
      if (text("0.out").empty()) return timer.set(io::now() + 5ms, look);
      EXPECT_TRUE(group_->end_for(0, SIGTERM, "too late"));
    };
    look();
    loop_->run();
  }

  std::string text(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
  std::unique_ptr<io::Loop> loop_;
  std::unique_ptr<WorkerHost> host_;
  std::unique_ptr<LocalProcesses> processes_;
  std::unique_ptr<WorkerGroup> group_;
  std::optional<WorkersResult> result_;
  std::vector<int> told_;
};

TEST_F(WorkerGroupTest, TellsOfASuccess) {
  const auto& result = run(spec_of({"echo a", "echo b >&2"}));
  EXPECT_TRUE(result.succeeded);
  EXPECT_THAT(result.exit_codes, ElementsAre(0, 0));
  EXPECT_FALSE(result.cause);
  EXPECT_TRUE(result.failures.empty());
  EXPECT_EQ(text("0.out"), "a\n");
  EXPECT_EQ(text("1.err"), "b\n");
}

TEST_F(WorkerGroupTest, NamesTheFirstFailureAndStopsTheOthers) {
  const auto& result = run(spec_of({"exec sleep 1000", "exit 7", "exec sleep 1000"}));
  EXPECT_FALSE(result.succeeded);
  ASSERT_TRUE(result.cause);
  EXPECT_EQ(result.cause->local_rank, 1);
  EXPECT_EQ(result.cause->global_rank, 101);
  EXPECT_EQ(result.cause->role, "trainer");
  EXPECT_EQ(result.cause->exit_code, 7);
  EXPECT_EQ(result.cause->message, "ended with exit code 7");
  EXPECT_FALSE(result.cause->stopped_by_us);
  EXPECT_THAT(result.exit_codes, ElementsAre(-15, 7, -15));
  ASSERT_EQ(result.failures.size(), 3u);
  EXPECT_EQ(result.failures[0].local_rank, 1);
  EXPECT_TRUE(result.failures[1].stopped_by_us);
  EXPECT_EQ(result.failures[1].message, "killed by SIGTERM (terminated), sent by us");
  EXPECT_THAT(told_, ElementsAre(1));
}

TEST_F(WorkerGroupTest, ReadsWhyFromTheErrorFile) {
  const auto& result = run(spec_of(
      {R"(echo '{"message": {"message": "ValueError: boom", "extraInfo": {"py_callstack": "stack",)"
       R"( "timestamp": "1700000000"}}}' > )" +
       folder_ + "/0.json; exit 1"}));
  ASSERT_TRUE(result.cause);
  EXPECT_EQ(result.cause->message, "ValueError: boom");
  EXPECT_EQ(result.cause->traceback, "stack");
  EXPECT_EQ(result.cause->error_file, folder_ + "/0.json");
}

TEST_F(WorkerGroupTest, ReadsWhyFromTheTracebackOtherwise) {
  const auto& result = run(spec_of(
      {"echo broken > " + folder_ +
       "/0.json; printf 'noise\\nTraceback (most recent call last):\\n  File \"x.py\", line 1, in "
       "<module>\\n    f()\\nKeyError: 1\\n' >&2; exit 1"}));
  ASSERT_TRUE(result.cause);
  EXPECT_EQ(result.cause->message, "KeyError: 1");
  EXPECT_THAT(result.cause->traceback, HasSubstr("line 1"));
  EXPECT_THAT(result.cause->tail, HasSubstr("noise"));
  EXPECT_FALSE(result.cause->error);
  ASSERT_FALSE(result.cause->evidence.empty());
  EXPECT_THAT(result.cause->evidence, testing::Contains(HasSubstr("error file cannot be read")));
}

TEST_F(WorkerGroupTest, StartsNobodyIfOneCannotBeStarted) {
  auto spec = spec_of({"exec sleep 1000", "true"});
  spec.commands[1].argv = {"/no/such/program"};
  ASSERT_FALSE(start(spec));
  const std::size_t before = open_descriptors();
  const auto started = start(spec);
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("rank 101 (local rank 1)"));
  EXPECT_THAT(started.error().message, HasSubstr("/no/such/program"));
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(WorkerGroupTest, PutsTheRankIntoArguments) {
  auto spec = spec_of({"", ""});
  for (WorkerCommand& command : spec.commands)
    command.argv = {"/bin/echo", "--rank=${local_rank}", "$rank", "$$1", "${unknown}"};
  run(spec);
  EXPECT_EQ(text("1.out"), "--rank=1 $rank $1 ${unknown}\n");
}

TEST_F(WorkerGroupTest, SendsAForwardedSignalOnceAndGoesOn) {
  auto spec = spec_of({"trap 'echo usr1; kill %1; exit 0' USR1; sleep 1000 & echo ready; wait"});
  ASSERT_TRUE(start(spec));
  io::Timer poll(*loop_);
  std::function<void()> when_ready = [&] {
    if (text("0.out") == "ready\n") return group_->forward(SIGUSR1);
    poll.set(io::now() + 5ms, when_ready);
  };
  when_ready();
  loop_->run();
  EXPECT_TRUE(result_->succeeded) << text("0.err");
  EXPECT_EQ(text("0.out"), "ready\nusr1\n");
}

// Workers with children of their own, killed in every way at every moment: nothing of us grows.
TEST_F(WorkerGroupTest, TheSentencedOneIsTheCauseWhateverTheOthersDo) {
  WorkersSpec spec = spec_of({"exec sleep 100", "exec sleep 100"});
  spec.take_stacks = TakeStacks::Never;
  ASSERT_TRUE(start(spec));
  loop_->post([this] { EXPECT_TRUE(group_->end_for(1, SIGKILL, "it hangs")); });
  loop_->run();
  ASSERT_TRUE(result_ && result_->cause);
  EXPECT_EQ(result_->cause->local_rank, 1);
  EXPECT_EQ(result_->cause->message, "it hangs");
  EXPECT_EQ(result_->cause->signal_name, "SIGKILL");
  EXPECT_THAT(told_, ElementsAre(1));
}

TEST_F(WorkerGroupTest, TheSentencedOneIsTheCauseEvenIfItEndsWell) {
  WorkersSpec spec = spec_of({"trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"});
  spec.take_stacks = TakeStacks::Never;
  end_once_ready(spec);
  ASSERT_TRUE(result_ && result_->cause);
  EXPECT_EQ(result_->cause->message, "too late");
  EXPECT_EQ(result_->cause->exit_code, 0);
  EXPECT_FALSE(result_->succeeded);
}

TEST_F(WorkerGroupTest, ASentencedOneThatDoesNotHeedIsKilledAfterTheGrace) {
  WorkersSpec spec = spec_of({"trap : TERM; echo ready; while :; do sleep 0.01; done"});
  spec.take_stacks = TakeStacks::Never;
  end_once_ready(spec);
  ASSERT_TRUE(result_ && result_->cause);
  EXPECT_EQ(result_->cause->message, "too late");
  EXPECT_EQ(result_->cause->signal_name, "SIGKILL");
}

TEST_F(WorkerGroupTest, LeaksNothingInTwoHundredRounds) {
  ASSERT_TRUE(io::become_subreaper());  // So that no zombie is left to init.
  std::mt19937 dice(20261115);          // Any will do; the moments differ by themselves.
  run(spec_of({"true"}));               // Whatever is made once has been made.
  group_.reset();
  const std::size_t before = open_descriptors();
  for (int round = 0; round < 200; ++round) {
    auto spec =
        spec_of({"sleep 1000 & exec sleep 1000", "sleep 1000 & wait", "sleep 0.01; exit 3"});
    spec.claim_orphans = true;
    spec.grace = std::chrono::milliseconds(dice() % 20);
    ASSERT_TRUE(start(spec));
    const auto pids = group_->pids();
    io::Timer blow(*loop_);
    blow.set(io::now() + std::chrono::microseconds(dice() % 20'000), [&] {
      switch (dice() % 4) {
        case 0:
          return group_->stop(SIGTERM, 10ms);
        case 1:
          return group_->kill();
        default:
          ::kill(pids.at(static_cast<int>(dice() % 2)), dice() % 2 == 0 ? SIGKILL : SIGSEGV);
      }
    });
    loop_->run();
    ASSERT_TRUE(result_->survivors.empty());
    for (const auto& [rank, pid] : pids) {
      ASSERT_NE(::kill(pid, 0), 0) << "worker " << rank << " of round " << round << " is there";
      ASSERT_NE(::kill(-pid, 0), 0) << "of worker " << rank << "'s group somebody is there";
    }
    group_.reset();
    ASSERT_LE(io::children().size(), 1u) << "after round " << round;  // The guard.
    ASSERT_EQ(open_descriptors(), before) << "after round " << round;
  }
}

}  // namespace
}  // namespace regroup::runtime
