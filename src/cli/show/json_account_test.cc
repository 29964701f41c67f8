#include "cli/show/json_account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace regroup::cli {
namespace {

using Event = AgentEvent;
using Level = View::Level;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kWhen = 1'700'000'000'000'007;
const std::string kTime = R"({"time": "2023-11-14T22:13:20.000007Z", )";

TEST(JsonAccount, ALineHasItsTimeLevelEventAndText) {
  EXPECT_EQ(json_line("warning", "warning", "a \"b\"\n", kWhen),
            kTime + R"("level": "warning", "event": "warning", "text": "a \"b\"\n"})");
}

TEST(JsonAccount, OfARound) {
  EXPECT_EQ(
      json_account_of({.what = Event::Joined{.took = 2500us,
                                             .master_addr = "n1",
                                             .master_port = 29500,
                                             .ranks = {2, 3},
                                             .role_ranks = {0, 1},
                                             .role = "trainer",
                                             .role_world_size = 4},
                       .round = 3,
                       .group_rank = 1,
                       .group_world_size = 4,
                       .local_world_size = 2,
                       .world_size = 8},
                      Level::Calm, kWhen),
      kTime + R"("level": "info", "event": "joined", "text": "round 3: node 1 of 4", "round": 3, )"
              R"("group_rank": 1, "group_world_size": 4, "local_world_size": 2, "world_size": 8, )"
              R"("took_ms": 2.5, "master_addr": "n1", "master_port": 29500, "ranks": [2, 3], )"
              R"("role": "trainer", "role_ranks": [0, 1], "role_world_size": 4})");
}

TEST(JsonAccount, OfAFailureHasAllThatIsKnown) {
  const ProcessFailure failure{.local_rank = 1,
                               .global_rank = 5,
                               .host = "n1",
                               .pid = 77,
                               .exit_code = -9,
                               .signal_name = "SIGKILL",
                               .time_micros = kWhen,
                               .message = "killed by SIGKILL",
                               .traceback = "T\n",
                               .evidence = {"one", "two"}};
  AgentEvent event{.what = Event::Failed{.failure = failure,
                                         .then = Event::Failed::Then::Restart,
                                         .restart = 1,
                                         .max_restarts = 3}};
  const std::string text = json_account_of(event, Level::Calm, kWhen);
  EXPECT_THAT(text, HasSubstr(R"("level": "warning", "event": "failed", )"));
  EXPECT_THAT(text, HasSubstr(R"("restart": 1, "max_restarts": 3, "failure": {"rank": 5, )"));
  EXPECT_THAT(text, HasSubstr(R"("exit_code": -9, "signal": "SIGKILL", )"));
  EXPECT_THAT(text, HasSubstr(R"("evidence": ["one", "two"], )"));
  EXPECT_THAT(text, HasSubstr(R"("traceback": "T\n")"));
  EXPECT_EQ(json_account_of(event, Level::Quiet, kWhen), "");
  std::get<Event::Failed>(event.what).then = Event::Failed::Then::End;
  const std::string last = json_account_of(event, Level::Quiet, kWhen);
  EXPECT_THAT(last, HasSubstr(R"("level": "error")"));
  EXPECT_THAT(last, Not(HasSubstr(R"("restart":)")));
}

TEST(JsonAccount, OfTheEnd) {
  RunResult result;
  EXPECT_EQ(json_account_of({.what = Event::Ended{result}}, Level::Quiet, kWhen), "");
  EXPECT_THAT(json_account_of({.what = Event::Ended{result}}, Level::Calm, kWhen),
              HasSubstr(R"("ending": "succeeded", "restarts": 0})"));
  result.ending = RunResult::Ending::Failed;
  result.cause = ProcessFailure{.global_rank = 2, .host = "n1", .message = "KeyError: 1"};
  result.workers.cause = result.cause;
  result.workers.failures = {*result.cause,
                             {.local_rank = 1, .global_rank = 3, .host = "n1", .message = "other"}};
  result.workers.survivors = {{.pid = 9, .state = 'D', .name = "p", .wait_channel = ""}};
  const std::string text =
      json_account_of({.what = Event::Ended{result}}, Level::Quiet, kWhen, "the report\n");
  EXPECT_THAT(text, HasSubstr(R"("text": "rank 2 on n1 failed: KeyError: 1", "ending": "failed")"));
  EXPECT_THAT(text, HasSubstr(R"("other_failures": [{"rank": 3, "exit_code": 0, )"));
  EXPECT_THAT(text, HasSubstr(R"("survivors": [{"pid": 9, "name": "p", "state": "D", )"));
  EXPECT_THAT(text, testing::EndsWith(R"("report": "the report\n"})"));
}

TEST(JsonAccount, IsOneLineEach) {
  const ProcessFailure failure{.host = "n", .message = "a\nb\r\xff", .tail = "x\n"};
  const std::string lines = "a\nb";
  const std::vector<Event::What> all = {Event::Waiting{lines},
                                        Event::Joined{},
                                        Event::Started{},
                                        Event::Failed{failure},
                                        Event::MembersChanged{lines},
                                        Event::RunFailed{lines},
                                        Event::Signalled{lines},
                                        Event::CheckedIn{lines}};
  for (const Event::What& what : all) {
    const std::string text = json_account_of({.what = what}, Level::Verbose, kWhen);
    EXPECT_NE(text, "");
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace regroup::cli
