#include "core/coordinator/restart_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/rendezvous/rendezvous_testing.h"

namespace regroup::core::coordinator {
namespace {

using rendezvous::at;
using rendezvous::node;
using testing::HasSubstr;

RestartBudget::Decision fails(RestartBudget& budget, const std::string& name, Instant now = at(1h),
                              std::int64_t exit_code = 1) {
  return budget.on_failure({.node = node(name), .name = name}, exit_code, now);
}

TEST(RestartBudget, IsSpentByTheFailuresOfAllNodes) {
  RestartBudget budget({.max_restarts = 2});
  EXPECT_TRUE(fails(budget, "a").restart);
  EXPECT_TRUE(fails(budget, "b").restart);
  EXPECT_EQ(budget.restart_count(node("c")), 2);
  const auto decision = fails(budget, "c");
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(decision.note, "");  // The reason is that restarts are used up.
  EXPECT_EQ(budget.restarts(), 2);
}

TEST(RestartBudget, IsOfEachNodeWhereTheyCountTheirOwn) {
  RestartBudget budget({.max_restarts = 9, .per_node = true});
  budget.admit(node("a"), 1);
  budget.admit(node("b"), 2);
  EXPECT_TRUE(fails(budget, "a").restart);
  EXPECT_FALSE(fails(budget, "a").restart);
  EXPECT_TRUE(fails(budget, "b").restart);
  EXPECT_EQ(budget.restart_count(node("b")), 1);
  budget.forget(node("a"));
  EXPECT_EQ(budget.restart_count(node("a")), 0);
}

TEST(RestartBudget, ComesBackWhenTheWindowHasPassed) {
  RestartBudget budget({.max_restarts = 1, .restart_window = 60s});
  EXPECT_TRUE(fails(budget, "a", at(100s)).restart);
  EXPECT_FALSE(fails(budget, "a", at(160s)).restart);  // Exactly the window is within it.
  EXPECT_TRUE(fails(budget, "a", at(161s)).restart);
}

TEST(RestartBudget, EndsACrashLoopButNotFailuresThatAreFarBetween) {
  RestartBudget budget({.max_restarts = 100, .crash_loop = 2, .crash_loop_time = 10s});
  budget.on_round_started(at(0s));
  EXPECT_TRUE(fails(budget, "a", at(5s)).restart);
  budget.on_round_started(at(20s));
  EXPECT_TRUE(fails(budget, "a", at(31s)).restart);  // It ran long enough.
  budget.on_round_started(at(40s));
  EXPECT_TRUE(fails(budget, "a", at(41s)).restart);
  budget.on_round_started(at(50s));
  const auto decision = fails(budget, "a", at(60s));
  EXPECT_FALSE(decision.restart);
  EXPECT_THAT(decision.note, HasSubstr("2 times in a row"));
}

TEST(RestartBudget, IsNotTouchedByAnExitCodeThatForbidsARestart) {
  RestartBudget budget({.max_restarts = 5, .no_restart_codes = {64, -9}});
  EXPECT_THAT(fails(budget, "a", at(1h), -9).note, HasSubstr("exit code -9"));
  EXPECT_TRUE(fails(budget, "a", at(1h), 9).restart);
  EXPECT_EQ(budget.restarts(), 1);
}

TEST(RestartBudget, BarsANodeByNameThatWasFirstToFailTooOften) {
  RestartBudget budget({.max_restarts = 100, .node_strikes = 2});
  fails(budget, "a");
  EXPECT_EQ(budget.why_barred("a"), "");
  fails(budget, "a");
  EXPECT_THAT(budget.why_barred("a"), HasSubstr("a was the first to fail in 2 rounds"));
  EXPECT_EQ(budget.why_barred("b"), "");
}

TEST(RestartBudget, LimitsTheChangesOfMembers) {
  RestartBudget budget({.max_membership_changes = 1});
  EXPECT_TRUE(budget.on_members_changed().restart);
  EXPECT_THAT(budget.on_members_changed().note, HasSubstr("more than 1 times"));
}

TEST(RestartBudget, CountsOnFromWhatNodesWereToldAsFarAsThatCanBe) {
  RestartBudget budget({.max_restarts = 3});
  budget.recall(node("a"), 2);
  EXPECT_EQ(budget.restarts(), 2);
  budget.recall(node("b"), 1);
  EXPECT_EQ(budget.restarts(), 2);
  budget.recall(node("c"), 77);
  EXPECT_EQ(budget.restarts(), 3);
  budget.resume(node("d"), 4);  // Its workers have been told so.
  EXPECT_EQ(budget.restarts(), 4);
}

TEST(RestartBudget, AFailureThatAnEarlierCoordinatorHasCountedIsNotCountedAgain) {
  RestartBudget budget({.max_restarts = 1});
  budget.resume(node("a"), 0);
  budget.recall(node("b"), 1);  // It has heard that the round of both is over.
  EXPECT_TRUE(fails(budget, "a").restart);
  EXPECT_EQ(budget.restarts(), 1);
  budget.on_round_started(at(1h));
  EXPECT_FALSE(fails(budget, "a").restart);
}

TEST(RestartBudget, ACountThatNobodyCanHaveReachedDoesNotOverflow) {
  RestartBudget budget({.max_restarts = 3, .restart_window = 60s});
  budget.resume(node("a"), std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(fails(budget, "a").restart);
  EXPECT_EQ(budget.restarts(), 1'000'000'001);
}

}  // namespace
}  // namespace regroup::core::coordinator
