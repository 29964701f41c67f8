#include "cli/account.h"

#include <gtest/gtest.h>

namespace regroup::cli {
namespace {

using Kind = AgentEvent::Kind;
using Level = Account::Level;

TEST(Account, IsCalm) {
  EXPECT_EQ(account_of({.kind = Kind::Waiting, .text = "1 of 2 nodes"}, Level::Calm),
            "regroup: 1 of 2 nodes");
  EXPECT_EQ(account_of({.kind = Kind::Joined}, Level::Calm), "");
  EXPECT_EQ(account_of({.kind = Kind::Started}, Level::Calm), "");
  EXPECT_EQ(account_of({.kind = Kind::CheckedIn}, Level::Calm), "");
  EXPECT_EQ(
      account_of({.kind = Kind::MembersChanged, .text = "1 node wants to come in"}, Level::Calm),
      "regroup: 1 node wants to come in: joining the next round");
}

TEST(Account, SaysMoreToWhoAsks) {
  EXPECT_EQ(account_of({.kind = Kind::Joined,
                        .round = 3,
                        .group_rank = 1,
                        .group_world_size = 4,
                        .took = 2500us},
                       Level::Verbose),
            "regroup: round 3: node 1 of 4, after 2.5 ms");
}

TEST(Account, TellsOfAFailureOnceOnly) {
  const ProcessFailure failure{.global_rank = 5, .host = "n1", .message = "KeyError: 1"};
  AgentEvent event{.kind = Kind::Failed, .restart = 1, .max_restarts = 3, .failure = &failure};
  EXPECT_EQ(account_of(event, Level::Calm),
            "regroup: rank 5 on n1 failed: KeyError: 1; restart 1 of 3");
  event.restart = 4;  // The report at the end has it.
  EXPECT_EQ(account_of(event, Level::Calm), "");
}

TEST(Account, EndsWithTheCauseWhereverItWas) {
  RunResult result;
  result.ending = RunResult::Ending::Failed;
  result.cause_elsewhere = "rank 5 on n1 failed: KeyError: 1";
  EXPECT_EQ(account_of({.kind = Kind::Ended, .result = &result}, Level::Quiet),
            "regroup: the run has failed on another node: rank 5 on n1 failed: KeyError: 1");
  result.ending = RunResult::Ending::CouldNotJoin;
  result.error = {ErrorKind::Timeout, "nobody came"};
  EXPECT_EQ(account_of({.kind = Kind::Ended, .result = &result}, Level::Quiet),
            "regroup: nobody came");
}

}  // namespace
}  // namespace regroup::cli
