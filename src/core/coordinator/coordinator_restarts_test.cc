// When the workers of a run are started again, and when not.
#include <gtest/gtest.h>

#include "core/coordinator/coordinator_testing.h"

namespace regroup::core::coordinator {
namespace {

TEST(Coordinator, EndsTheRunWhenTheRestartsOfAllNodesTogetherAreSpent) {
  ScriptedRun run({.min_nodes = 3, .max_nodes = 3, .max_restarts = 2});
  run.start({"a", "b", "c"});
  for (const char* culprit : {"a", "b"}) {
    run.fail(culprit, "first");
    for (const char* name : {"a", "b", "c"}) run.join(name);
    ASSERT_TRUE(run.last<Sealed>("c"));
  }
  run.fail("c", "rank 2 on c: out of memory");
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(run.last<Stop>(name)->why, Stop::Why::RunFailed);
    EXPECT_EQ(run.last<Stop>(name)->text, "rank 2 on c: out of memory");
  }
  EXPECT_TRUE(run.machine.is_over());
  // A node that comes later is told the same.
  run.hello("d");
  run.join("d");
  EXPECT_EQ(run.last<Stop>("d")->text, "rank 2 on c: out of memory");
}

TEST(Coordinator, DoesNotCountWhatIsSaidOfAnEarlierRoundAgainstThisOne) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .max_restarts = 1});
  run.start({"a", "b"});
  run.fail("a", "first");
  for (const char* name : {"a", "b"}) run.join(name);
  ASSERT_EQ(run.last<Sealed>("b")->round, 1);
  run.say("b", Failed{.round = 0, .failure = {.node = "b", .text = "late"}});
  EXPECT_FALSE(run.last<Stop>("a"));
  for (const char* name : {"a", "b"}) run.say(name, Done{.round = 0});
  EXPECT_FALSE(run.machine.is_over());
  for (const char* name : {"a", "b"}) run.say(name, Done{.round = 1});
  EXPECT_TRUE(run.last<Over>("a"));
}

TEST(Coordinator, CountsRestartsWithinAWindow) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 1, .max_restarts = 1, .restart_window = 10s});
  run.start({"a"});
  run.fail("a", "first");
  run.join("a");
  run.after(11s, {"a"});
  run.fail("a", "second");
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::Failure);
  run.join("a");
  EXPECT_EQ(run.last<Sealed>("a")->restart_count, 2);
  run.after(9s, {"a"});
  run.fail("a", "third");
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::RunFailed);
}

TEST(Coordinator, EndsACrashLoop) {
  ScriptedRun run({.min_nodes = 1,
                   .max_nodes = 1,
                   .max_restarts = 100,
                   .crash_loop = 2,
                   .crash_loop_time = 3s});
  run.start({"a"});
  run.after(1s, {"a"});
  run.fail("a", "quick");
  run.join("a");
  run.after(4s, {"a"});
  run.fail("a", "slow");  // Ends the series of quick failures.
  run.join("a");
  run.fail("a", "quick");
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::Failure);
  run.join("a");
  run.fail("a", "quick");
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::RunFailed);
  EXPECT_EQ(run.last<Stop>("a")->note,
            "2 times in a row the workers failed right after their start (--crash-loop)");
}

TEST(Coordinator, DoesNotStartAgainAfterAnExitCodeThatSaysSo) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 1, .max_restarts = 3, .no_restart_codes = {2, -6}});
  run.start({"a"});
  run.say("a", Failed{.round = 0, .failure = {.node = "a", .exit_code = -6, .text = "aborted"}});
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::RunFailed);
  EXPECT_FALSE(run.last<Stop>("a")->note.empty());
}

TEST(Coordinator, DoesNotLetANodeInThatWasFirstToFailTooOften) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .max_restarts = 9, .node_strikes = 2});
  run.start({"a", "b"});
  run.hello("s");
  run.join("s");
  for (int round = 0; round < 2; ++round) {
    run.fail("b", "bad memory");
    run.join("b");
    run.join("a");
  }
  ASSERT_TRUE(run.last<Refused>("b"));
  EXPECT_TRUE(run.last<Refused>("b")->lasting);
  EXPECT_EQ(run.last<Sealed>("s")->round, 2);
  // A node with its name is not let in either.
  run.forget("b");
  run.hello("b");
  run.join("b");
  EXPECT_TRUE(run.last<Refused>("b"));
  EXPECT_FALSE(run.last<Stop>("a"));
}

TEST(Coordinator, EndsARunWhoseMembersChangeTooOften) {
  ScriptedRun run(
      {.min_nodes = 1, .max_nodes = 2, .max_membership_changes = 1, .reconnect_grace = 0ms});
  run.start({"a", "b"});
  run.close("b");
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::Members);
  run.join("a");
  run.forget("b");
  run.hello("b");
  run.join("b");
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::RunFailed);
}

TEST(Coordinator, CountsForEachNodeWhereThatIsWanted) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .max_restarts = 1, .per_node = true});
  run.start({"a", "b"});
  run.fail("b", "of b");
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::Members);
  EXPECT_EQ(run.last<Stop>("b")->why, Stop::Why::Failure);
  run.join("a");
  run.join("b");
  EXPECT_EQ(run.last<Sealed>("a")->restart_count, 0);
  EXPECT_EQ(run.last<Sealed>("b")->restart_count, 1);
  run.fail("a", "of a");
  run.join("a");
  run.join("b");
  EXPECT_EQ(run.last<Sealed>("a")->restart_count, 1);
  run.fail("a", "of a again");
  EXPECT_EQ(run.last<Stop>("b")->why, Stop::Why::RunFailed);
}

}  // namespace
}  // namespace regroup::core::coordinator
