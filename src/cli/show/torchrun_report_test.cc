#include "cli/show/torchrun_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <ctime>
#include <optional>

namespace regroup::cli {
namespace {

using testing::HasSubstr;

class TorchrunReport : public testing::Test {
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

  static ProcessFailure failed(int rank, int exit_code, const std::string& signal = "") {
    return {.local_rank = rank,
            .global_rank = rank + 8,
            .host = "node-2",
            .pid = 4711 + rank,
            .exit_code = exit_code,
            .signal_name = signal,
            .time_micros = 1'700'000'000'000'000,
            .stopped_by_us = signal == "SIGTERM"};
  }
  static WorkersResult of(const ProcessFailure& cause, std::vector<ProcessFailure> failures) {
    WorkersResult result;
    result.cause = cause;
    result.failures = std::move(failures);
    return result;
  }

 private:
  std::optional<std::string> zone_;
};

TEST_F(TorchrunReport, IsEmptyIfNobodyFailed) {
  EXPECT_EQ(torchrun_report("train.py", WorkersResult{}), "");
}

TEST_F(TorchrunReport, OfOneFailure) {
  const auto cause = failed(0, 3);
  const std::string border(60, '=');
  const std::string rule(60, '-');
  EXPECT_EQ(torchrun_report("train.py", of(cause, {cause})),
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + border +
                "\ntrain.py FAILED\n" + rule +
                "\nFailures:\n"
                "  <NO_OTHER_FAILURES>\n" +
                rule +
                "\nRoot Cause (first observed failure):\n"
                "[0]:\n"
                "  time      : 2023-11-14_22:13:20\n"
                "  host      : node-2\n"
                "  rank      : 8 (local_rank: 0)\n"
                "  exitcode  : 3 (pid: 4711) \n"
                "  error_file: <N/A>\n"
                "  traceback : To enable traceback see: "
                "https://pytorch.org/docs/stable/elastic/errors.html\n" +
                border + "\n");
}

TEST_F(TorchrunReport, WhoWasStoppedComesLastAndTheCauseKeepsItsNumber) {
  const auto cause = failed(2, -9, "SIGKILL");
  const std::string text = torchrun_report(
      "train.py", of(cause, {cause, failed(0, -15, "SIGTERM"), failed(3, 1), failed(1, 1)}));
  EXPECT_THAT(text, HasSubstr("Failures:\n[0]:\n"));
  EXPECT_THAT(text, HasSubstr("Root Cause (first observed failure):\n[1]:\n"));
  EXPECT_THAT(text, HasSubstr("  exitcode  : -9 (pid: 4713)  (SIGKILL)\n"));
  EXPECT_THAT(text, HasSubstr("  traceback : Signal 9 (SIGKILL) received by PID 4713\n"));
  EXPECT_THAT(text, HasSubstr("[3]:\n  time      : 2023-11-14_22:13:20\n  host      : node-2\n"
                              "  rank      : 8 (local_rank: 0)\n"));
}

TEST_F(TorchrunReport, TheErrorFileHasTheTimeAndTheTraceback) {
  auto cause = failed(0, 1);
  cause.error_file = "/logs/0/error.json";
  cause.error = ErrorFile{.message = "ValueError: boom",
                          .call_stack = "Traceback:\n  File 1\nValueError: boom\n",
                          .timestamp = 1'600'000'000,
                          .structured = true};
  const std::string text = torchrun_report("train.py", of(cause, {cause}));
  EXPECT_THAT(text, HasSubstr("  time      : 2020-09-13_12:26:40\n"));
  EXPECT_THAT(text,
              HasSubstr("  error_file: /logs/0/error.json\n"
                        "  traceback : Traceback:\n    File 1\n  ValueError: boom\n  \n===="));
}

TEST_F(TorchrunReport, BordersAreAsWideAsTheLongestLine) {
  auto cause = failed(0, -9, "SIGKILL");
  const std::string text = torchrun_report("a", of(cause, {cause}));
  // "  traceback : Signal 9 (SIGKILL) received by PID 4711" has 53 characters.
  EXPECT_THAT(text, HasSubstr(": \n" + std::string(53, '=') + "\na FAILED\n"));
}

}  // namespace
}  // namespace regroup::cli
