// What spares are told. Found by simulated runs.
#include <gtest/gtest.h>

#include "core/coordinator/coordinator_testing.h"

namespace regroup::core::coordinator {
namespace {

// Once, a lost message was not repeated: the node did not know that it was a spare, and gave up its
// join.
TEST(Spare, HearsAgainThatItIsOneIfTheWordWasLost) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 1});
  run.start({"a"});
  run.start({"spare"});
  run.after(2s, {"a", "spare"});
  ASSERT_TRUE(run.last<Progress>("spare"));

  run.inbox["spare"].clear();  // The message was lost.
  run.hello("spare");
  run.say("spare",
          Join{.number = run.joined["spare"], .bootstrap = {.address = "spare", .port = 4711}});
  run.after(2s, {"a", "spare"});
  ASSERT_TRUE(run.last<Progress>("spare"));
  EXPECT_TRUE(run.last<Progress>("spare")->spare);
}

// Workers that are done would have to run again for it.
TEST(LateNode, DoesNotBreakARoundThatIsAboutToEnd) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 3});
  run.start({"a", "b"});
  run.after(60s, {"a", "b"});
  ASSERT_TRUE(run.last<Sealed>("a"));
  run.say("a", Done{.round = 0});
  run.hello("late");
  run.join("late");
  EXPECT_FALSE(run.last<Stop>("a"));
  EXPECT_FALSE(run.last<Stop>("b"));
  run.after(2s, {"a", "b", "late"});
  ASSERT_TRUE(run.last<Progress>("late"));
  EXPECT_TRUE(run.last<Progress>("late")->spare);  // It may wait for as long as it takes.
  run.say("b", Done{.round = 0});
  EXPECT_TRUE(run.last<Over>("late"));
}

TEST(LateNode, IsLetInWhenAWorkerFailsAfterAll) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 3, .max_restarts = 1});
  run.start({"a", "b"});
  run.after(60s, {"a", "b"});
  run.say("a", Done{.round = 0});
  run.hello("late");
  run.join("late");
  run.fail("b", "out of memory");
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::Failure);
  run.join("a");
  run.join("b");
  run.after(60s, {"a", "b", "late"});
  ASSERT_TRUE(run.last<Sealed>("late"));
  EXPECT_EQ(run.last<Sealed>("late")->world_size, 3);
}

TEST(LateNode, ComesInAtOnceWhileNobodyIsDone) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 3});
  run.start({"a", "b"});
  run.after(60s, {"a", "b"});
  run.hello("late");
  run.join("late");
  ASSERT_TRUE(run.last<Stop>("a"));
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::Members);
}

}  // namespace
}  // namespace regroup::core::coordinator
