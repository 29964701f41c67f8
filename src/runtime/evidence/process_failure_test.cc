#include "runtime/evidence/process_failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "io/process/process_testing.h"

namespace regroup::runtime {
namespace {

using core::supervision::End;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kTraceback =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 7, in <module>\n"
    "    step()\n"
    "ValueError: boom\n";

// A worker that has ended, with all that is known of it.
struct Known : EndedWorker, FailureFacts {
  std::string ended_for = {};
};

ProcessFailure make_failure(const Known& worker) {
  ProcessFailure failure = failure_of(worker);
  explain(failure, worker);
  if (!worker.ended_for.empty()) ended_for(failure, worker.ended_for);
  return failure;
}

Known failed_with(int code, int signal = 0) {
  return {{.name = {.local_rank = 1, .global_rank = 9, .role = "trainer"},
           .host = "node-2",
           .pid = 4711,
           .outcome = {End::Failed, {.code = code, .signal = signal}, Instant{}, 0, 0},
           .time_micros = 1'700'000'000'000'000},
          {.error_file = "", .evidence = {}, .tail = ""}};
}

class WithErrorFile : public testing::Test {
 protected:
  Known worker(int code, const std::string& json) {
    auto ended = failed_with(code);
    ended.error_file = scratch_.write("error.json", json, 0600);
    return ended;
  }
  static std::string recorded(const std::string& message, const std::string& stack) {
    return R"({"message": {"message": ")" + message + R"(", "extraInfo": {"py_callstack": ")" +
           stack + R"(", "timestamp": "1700000000"}}})";
  }
  io::ScratchDirectory scratch_;
};

TEST(ProcessFailure, SaysWhoAndWhenAndHow) {
  auto ended = failed_with(3);
  ended.evidence.lines = {"peak memory 1.0 GiB"};
  ended.evidence.peak_rss_bytes = 1 << 30;
  ended.evidence.core_file = "core.1";
  ended.tail = "last words\n";
  const auto failure = make_failure(ended);
  EXPECT_EQ(failure.local_rank, 1);
  EXPECT_EQ(failure.global_rank, 9);
  EXPECT_EQ(failure.role, "trainer");
  EXPECT_EQ(failure.host, "node-2");
  EXPECT_EQ(failure.pid, 4711);
  EXPECT_EQ(failure.exit_code, 3);
  EXPECT_EQ(failure.signal_name, "");
  EXPECT_EQ(failure.time_micros, 1'700'000'000'000'000);
  EXPECT_EQ(failure.message, "ended with exit code 3");
  EXPECT_EQ(failure.traceback, "");
  EXPECT_EQ(failure.tail, "last words\n");
  EXPECT_EQ(failure.core_file, "core.1");
  EXPECT_EQ(failure.peak_rss_bytes, 1 << 30);
  EXPECT_THAT(failure.evidence, ElementsAre("peak memory 1.0 GiB"));
  EXPECT_FALSE(failure.error);
  EXPECT_FALSE(failure.stopped_by_us || failure.survived || failure.out_of_memory);
}

TEST(ProcessFailure, ASignalIsToldByNameAndInWords) {
  const auto failure = make_failure(failed_with(0, SIGSEGV));
  EXPECT_EQ(failure.message, "killed by SIGSEGV (segmentation fault)");
  EXPECT_EQ(failure.signal_name, "SIGSEGV");
  EXPECT_EQ(failure.exit_code, -11);
}

TEST(ProcessFailure, OurOwnSignalIsToldAsOurs) {
  auto ended = failed_with(0, SIGTERM);
  ended.outcome.end = End::Stopped;
  ended.outcome.signalled = SIGTERM;
  const auto failure = make_failure(ended);
  EXPECT_TRUE(failure.stopped_by_us);
  EXPECT_EQ(failure.message, "killed by SIGTERM (terminated), sent by us");
}

TEST(ProcessFailure, AnotherSignalDuringAStopIsNotOurs) {
  auto ended = failed_with(0, SIGSEGV);
  ended.outcome.end = End::Stopped;
  ended.outcome.signalled = SIGTERM;
  EXPECT_EQ(make_failure(ended).message, "killed by SIGSEGV (segmentation fault)");
}

TEST(ProcessFailure, WhoCannotBeKilledIsToldSo) {
  auto ended = failed_with(0);
  ended.outcome.end = End::Survived;
  const auto failure = make_failure(ended);
  EXPECT_TRUE(failure.survived);
  EXPECT_EQ(failure.message, "cannot be killed");
}

TEST(ProcessFailure, ASignOfMemoryIsPassedOn) {
  for (const auto sign : {OutOfMemory::Likely, OutOfMemory::Proven}) {
    auto ended = failed_with(0, SIGKILL);
    ended.evidence.out_of_memory = sign;
    EXPECT_TRUE(make_failure(ended).out_of_memory);
  }
}

TEST(ProcessFailure, APrintedTracebackSaysMoreThanAnExitCode) {
  auto ended = failed_with(1);
  ended.tail = std::string("epoch 3\n") + kTraceback;
  const auto failure = make_failure(ended);
  EXPECT_EQ(failure.message, "ValueError: boom");
  EXPECT_THAT(failure.traceback, HasSubstr("train.py"));
  EXPECT_THAT(failure.traceback, testing::Not(HasSubstr("epoch 3")));
}

TEST(ProcessFailure, APrintedTracebackDoesNotExplainASignal) {
  auto ended = failed_with(0, SIGKILL);
  ended.tail = kTraceback;
  const auto failure = make_failure(ended);
  EXPECT_EQ(failure.message, "killed by SIGKILL");
  EXPECT_THAT(failure.traceback, HasSubstr("boom"));  // Shown, for it may matter.
}

TEST(ProcessFailure, TheTracebackOfOurOwnStopIsNone) {
  auto ended = failed_with(1);
  ended.outcome.end = End::Stopped;
  ended.outcome.signalled = SIGINT;
  ended.tail =
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyboardInterrupt\n";
  const auto failure = make_failure(ended);
  EXPECT_EQ(failure.traceback, "");
  EXPECT_EQ(failure.message, "ended with exit code 1");
}

TEST(ProcessFailure, AWorkerThatFailedBeforeOurStopCameHasItsOwnTraceback) {
  auto ended = failed_with(1);
  ended.outcome.end = End::Stopped;
  ended.outcome.signalled = SIGTERM;
  ended.tail = kTraceback;
  EXPECT_EQ(make_failure(ended).message, "ValueError: boom");
  EXPECT_THAT(make_failure(ended).traceback, HasSubstr("boom"));
  ended.outcome.exit = {.code = 0, .signal = SIGTERM};
  EXPECT_EQ(make_failure(ended).traceback, "");
}

TEST_F(WithErrorFile, ItsMessageAndCallStackComeFirst) {
  auto ended = worker(1, recorded("KeyError: 1", "the stack"));
  ended.tail = kTraceback;
  const auto failure = make_failure(ended);
  EXPECT_EQ(failure.message, "KeyError: 1");
  EXPECT_EQ(failure.traceback, "the stack");
  EXPECT_EQ(failure.error_file, ended.error_file);
  ASSERT_TRUE(failure.error);
  EXPECT_TRUE(failure.error->structured);
  EXPECT_EQ(failure.error->timestamp, 1'700'000'000);
}

TEST_F(WithErrorFile, WithoutACallStackThePrintedTracebackIsShown) {
  auto ended = worker(1, recorded("KeyError: 1", ""));
  ended.tail = kTraceback;
  const auto failure = make_failure(ended);
  EXPECT_EQ(failure.message, "KeyError: 1");
  EXPECT_THAT(failure.traceback, HasSubstr("ValueError: boom"));
}

TEST_F(WithErrorFile, PlainTextIsAMessageToo) {
  EXPECT_EQ(make_failure(worker(1, R"({"message": "no GPU"})")).message, "no GPU");
}

TEST_F(WithErrorFile, ABrokenOneCountsAsAbsentAndIsTold) {
  auto ended = worker(1, R"({"message": {"messa)");
  ended.tail = kTraceback;
  const auto failure = make_failure(ended);
  EXPECT_FALSE(failure.error);
  EXPECT_EQ(failure.error_file, "");
  EXPECT_EQ(failure.message, "ValueError: boom");
  EXPECT_THAT(failure.evidence, Contains(HasSubstr("its error file cannot be read: ")));
}

TEST_F(WithErrorFile, AnAbsentOrEmptyOneIsNoNews) {
  auto ended = worker(1, "");
  EXPECT_THAT(make_failure(ended).evidence, IsEmpty());
  EXPECT_EQ(make_failure(ended).message, "ended with exit code 1");
  ended.error_file = scratch_.file("never_written.json");
  EXPECT_THAT(make_failure(ended).evidence, IsEmpty());
  EXPECT_EQ(make_failure(ended).error_file, "");
}

TEST(ProcessFailure, ExitCodesAreAsPythonSaysThem) {
  EXPECT_EQ(python_exit_code({.code = 0, .signal = 0}), 0);
  EXPECT_EQ(python_exit_code({.code = 255, .signal = 0}), 255);
  EXPECT_EQ(python_exit_code({.code = 0, .signal = SIGKILL}), -9);
}

}  // namespace
}  // namespace regroup::runtime
