#include "cli/show/failure_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <ctime>

namespace regroup::cli {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class FailureReport : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* zone = ::getenv("TZ"); zone != nullptr) zone_ = zone;
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
  void TearDown() override {
    zone_ ? ::setenv("TZ", zone_->c_str(), 1) : ::unsetenv("TZ");
    ::tzset();
  }

  static ProcessFailure failed(int rank, int exit_code, const std::string& message) {
    return {.local_rank = rank,
            .global_rank = rank + 8,
            .host = "node-2",
            .pid = 4711 + rank,
            .exit_code = exit_code,
            .time_micros = 1'700'000'000'000'000,
            .message = message};
  }
  static ProcessFailure stopped(int rank) {
    auto failure = failed(rank, -15, "killed by SIGTERM (terminated), sent by us");
    failure.stopped_by_us = true;
    return failure;
  }
  // The first of them is the cause.
  static WorkersResult of(std::vector<ProcessFailure> failures) {
    WorkersResult result;
    result.cause = failures.front();
    result.failures = std::move(failures);
    return result;
  }
  static std::ptrdiff_t lines(const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  }

 private:
  std::optional<std::string> zone_;
};

TEST_F(FailureReport, IsEmptyIfNobodyFailed) {
  WorkersResult result;
  result.succeeded = true;
  result.logs.directory = "/logs";
  EXPECT_EQ(failure_report(result), "");
}

TEST_F(FailureReport, IsEmptyIfAllWereStoppedOnOrder) {
  WorkersResult result;
  result.failures = {stopped(0), stopped(1)};
  EXPECT_EQ(failure_report(result), "");
}

TEST_F(FailureReport, BeginsWithTheCause) {
  EXPECT_EQ(failure_report(of({failed(1, 3, "ended with exit code 3")})),
            "regroup: rank 9 on node-2 failed: ended with exit code 3\n"
            "  local rank 1, pid 4712, at 22:13:20, exit code 3\n");
}

TEST_F(FailureReport, NamesNobodyForAHangIfNobodyCanBeTold) {
  auto killed = failed(1, -9, "hangs: cannot tell which rank is to blame; workers have slept");
  killed.stack = "train.py:5 in step\n";
  EXPECT_THAT(failure_report(of({killed})),
              testing::StartsWith("regroup: the run hangs: cannot tell which rank is to blame; "
                                  "workers have slept\n"
                                  "  rank 9 (pid 4712) was killed at 22:13:20, to end them all\n"));
  EXPECT_THAT(failure_report(of({killed})), testing::Not(testing::HasSubstr("train.py")));
}

TEST_F(FailureReport, ShowsAllThereIsInThisOrder) {
  auto cause = failed(0, -11, "killed by SIGSEGV (segmentation fault)");
  cause.signal_name = "SIGSEGV";
  cause.evidence = {"core file: core (1.0 MiB)", "peak memory 2.0 GiB"};
  cause.error_file = "/logs/0/error.json";
  cause.traceback = "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 1";
  cause.tail = "not shown\n";
  auto result = of({cause, failed(3, 1, "KeyError: 1"), stopped(1), stopped(2)});
  result.logs.directory = "/logs";
  EXPECT_EQ(failure_report(result),
            "regroup: rank 8 on node-2 failed: killed by SIGSEGV (segmentation fault)\n"
            "  local rank 0, pid 4711, at 22:13:20, killed by SIGSEGV\n"
            "  core file: core (1.0 MiB)\n"
            "  peak memory 2.0 GiB\n"
            "  error file: /logs/0/error.json\n"
            "    Traceback (most recent call last):\n"
            "      File \"a.py\", line 1\n"
            "    KeyError: 1\n"
            "  rank 11 failed after that: KeyError: 1\n"
            "  ranks 9, 10: stopped because of it\n"
            "  logs: /logs\n");
}

TEST_F(FailureReport, OneThatHasItsOwnTracebackWasNotJustStopped) {
  auto own = stopped(1);
  own.message = "RuntimeError: connection closed by peer";
  own.traceback = "Traceback (most recent call last):\nRuntimeError: connection closed by peer";
  EXPECT_THAT(failure_report(of({failed(0, 1, "a"), own, stopped(2)})),
              EndsWith("  rank 9 failed as well: RuntimeError: connection closed by peer\n"
                       "  rank 10: stopped because of it\n"));
}

TEST_F(FailureReport, SaysWhetherTheLastLinesAreOfBothStreams) {
  auto cause = failed(1, 1, "a");
  cause.tail = "one\n";
  cause.tail_of_both = true;
  EXPECT_THAT(failure_report(of({cause})), EndsWith("  the last it wrote:\n    one\n"));
}

TEST_F(FailureReport, EndsWithWhatMayBeTried) {
  auto result = of({failed(0, 1, "ModuleNotFoundError: No module named 'numpy'")});
  result.logs.directory = "/logs";
  result.cause->error_file = "/logs/0/error.json";
  EXPECT_THAT(failure_report(result, {.interpreter = "/opt/python"}),
              EndsWith("  logs: /logs\n"
                       "  what to try: the workers ran with /opt/python: install 'numpy' there, or "
                       "choose another interpreter (--python)\n"));
}

TEST_F(FailureReport, InColourTheCauseIsRedAndHintsAreDim) {
  const auto result = of({failed(0, 127, "ended with exit code 127")});
  const std::string text = failure_report(result, {}, Paint{true});
  EXPECT_THAT(text, testing::StartsWith("\x1b[31mregroup: rank 8 on node-2 failed: ended with exit "
                                        "code 127\x1b[0m\n  local rank"));
  EXPECT_THAT(text, HasSubstr("\n\x1b[2m  what to try: "));
  EXPECT_THAT(text, EndsWith("\x1b[0m\n"));
}

TEST_F(FailureReport, WithoutATracebackTheLastLinesAreShown) {
  auto cause = failed(0, 1, "ended with exit code 1");
  cause.tail = "one\n\ntwo\n\n\n";
  EXPECT_THAT(failure_report(of({cause})),
              EndsWith("  the last it wrote to stderr:\n    one\n    \n    two\n"));
}

TEST_F(FailureReport, OfMuchTheLastTwentyLinesAreShown) {
  auto cause = failed(0, 1, "ended with exit code 1");
  for (int i = 1; i <= 100; ++i) cause.tail += "line " + std::to_string(i) + "\n";
  const std::string text = failure_report(of({cause}));
  EXPECT_THAT(text, HasSubstr("    ... (80 lines before)\n    line 81\n"));
  EXPECT_THAT(text, EndsWith("    line 100\n"));
  EXPECT_EQ(lines(text), 2 + 1 + 1 + 20);
}

TEST_F(FailureReport, OfALongTracebackTheEndIsShown) {
  auto cause = failed(0, 1, "RecursionError");
  for (int i = 1; i <= 1000; ++i) cause.traceback += "frame " + std::to_string(i) + "\n";
  const std::string text = failure_report(of({cause}));
  EXPECT_THAT(text, HasSubstr("    ... (940 lines before)\n    frame 941\n"));
  EXPECT_THAT(text, EndsWith("    frame 1000\n"));
}

TEST_F(FailureReport, ALineWithoutEndIsCut) {
  auto cause = failed(0, 1, "ended with exit code 1");
  cause.tail = std::string(64 * 1024, 'x');
  EXPECT_THAT(failure_report(of({cause})),
              EndsWith("stderr:\n    " + std::string(400, 'x') + "...\n"));
}

TEST_F(FailureReport, OfAProgressBarOnlyTheLastStateIsShown) {
  auto cause = failed(0, 1, "ended with exit code 1");
  cause.tail = "10%\r20%\r30%\nwindows\r\n";
  const std::string text = failure_report(of({cause}));
  EXPECT_THAT(text, HasSubstr("    30%\n"));
  EXPECT_THAT(text, Not(HasSubstr("10%")));
  EXPECT_THAT(text, HasSubstr("windows"));
}

TEST_F(FailureReport, ManyThatFailedAlikeAreOneLine) {
  std::vector<ProcessFailure> failures;
  for (int rank = 0; rank < 64; ++rank)
    failures.push_back(failed(rank, 1, rank % 2 == 0 ? "CUDA error" : "NCCL error"));
  const std::string text = failure_report(of(failures));
  EXPECT_EQ(lines(text), 4);
  EXPECT_THAT(text, HasSubstr("  ranks 10, 12, 14, "));
  EXPECT_THAT(text, HasSubstr(", 70 failed after that: CUDA error\n"));
  EXPECT_THAT(text, EndsWith(", 71 failed after that: NCCL error\n"));
}

TEST_F(FailureReport, RanksAreSortedWhateverTheOrderOfTheirEnds) {
  EXPECT_THAT(
      failure_report(of({failed(3, 1, "a"), stopped(2), stopped(0), stopped(5), stopped(1)})),
      EndsWith("  ranks 8-10, 13: stopped because of it\n"));
}

TEST_F(FailureReport, NamesWhoCannotBeKilled) {
  WorkersResult result;
  result.survivors = {{.pid = 7, .state = 'D', .name = "python", .wait_channel = "nfs_wait"},
                      {.pid = 8, .state = 'D', .name = "sh", .wait_channel = ""}};
  result.logs.directory = "/logs";
  result.logs.workers.push_back({.out = {"/logs/0/stdout.log", Console::No}, .err = {}});
  EXPECT_EQ(failure_report(result),
            "regroup: 2 processes cannot be killed; this machine may need a look before it is used "
            "again\n"
            "  pid 7 (python), state D, waits in nfs_wait\n"
            "  pid 8 (sh), state D\n"
            "  logs: /logs\n");
  result.survivors.pop_back();
  EXPECT_THAT(failure_report(result), HasSubstr("regroup: 1 process cannot be killed;"));
}

TEST_F(FailureReport, ASurvivorIsListedOnce) {
  auto survivor = failed(1, 0, "cannot be killed");
  survivor.survived = true;
  auto result = of({failed(0, 1, "boom"), survivor});
  result.survivors = {{.pid = 4712, .state = 'D', .name = "python", .wait_channel = ""}};
  const std::string text = failure_report(result);
  EXPECT_THAT(text, Not(HasSubstr("rank 9")));
  EXPECT_THAT(text, HasSubstr("pid 4712 (python)"));
}

TEST_F(FailureReport, TheExitCodeIsAsAShellTellsIt) {
  EXPECT_EQ(exit_code_of(failed(0, 1, "")), 1);
  EXPECT_EQ(exit_code_of(failed(0, 0, "")), 1);
  EXPECT_EQ(exit_code_of(failed(0, 255, "")), 255);
  EXPECT_EQ(exit_code_of(failed(0, -9, "")), 137);
  EXPECT_EQ(exit_code_of(failed(0, -11, "")), 139);
}

}  // namespace
}  // namespace regroup::cli
