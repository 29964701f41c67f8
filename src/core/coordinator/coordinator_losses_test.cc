// Nodes that are lost, silent, or come back in time.
#include <gtest/gtest.h>

#include "core/coordinator/coordinator_testing.h"

namespace regroup::core::coordinator {
namespace {

TEST(Coordinator, GoesOnWithTheOthersWhenAConnectionIsClosedAndDoesNotComeBack) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 2, .reconnect_grace = 100ms});
  run.start({"a", "b"});
  run.close("b");
  EXPECT_FALSE(run.last<Stop>("a"));
  run.after(101ms);
  ASSERT_TRUE(run.last<Stop>("a"));
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::Members);
  EXPECT_EQ(run.last<Stop>("a")->text, "b is gone: its connection was closed");
  run.join("a");
  ASSERT_TRUE(run.last<Sealed>("a"));
  EXPECT_EQ(run.last<Sealed>("a")->world_size, 1);
  EXPECT_EQ(run.last<Sealed>("a")->restart_count, 0);  // Changes of members are free.
}

TEST(Coordinator, LetsANodeThatComesBackInTimeRunOn) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .reconnect_grace = 100ms});
  run.start({"a", "b"});
  run.close("b");
  run.after(50ms);
  run.hello_again("b");
  EXPECT_TRUE(run.last<Welcome>("b")->member);
  run.after(4s);
  EXPECT_FALSE(run.last<Stop>("a"));
  EXPECT_FALSE(run.last<Stop>("b"));
}

TEST(Coordinator, AnswersAJoinThatIsSaidAgainWithWhatCameOfIt) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .reconnect_grace = 100ms});
  run.start({"a", "b"});
  const Join again{.number = run.joined.at("b"), .bootstrap = {}};
  run.inbox.clear();
  run.close("b");
  run.hello("b");
  run.say("b", again);
  ASSERT_TRUE(run.last<Sealed>("b"));
  EXPECT_EQ(run.last<Sealed>("b")->round, 0);
  EXPECT_FALSE(run.last<Stop>("a"));
}

TEST(Coordinator, MissesASilentNodeAfterTheHeartbeatLimit) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 2, .heartbeat_limit = 5s});
  run.start({"a", "b"});
  run.after(4s, {"a", "b"});
  run.after(4s);
  run.say("a", Ping{});
  EXPECT_FALSE(run.last<Stop>("a"));
  run.after(1s);
  EXPECT_FALSE(run.last<Stop>("a"));  // Exactly at the limit is still in time.
  run.after(2ms);
  ASSERT_TRUE(run.last<Stop>("a"));
  EXPECT_EQ(run.last<Stop>("a")->text, "b is gone: nothing was heard for 5 s");
  EXPECT_TRUE(run.closed("b"));
}

TEST(Coordinator, WaitsForAReplacementWhenTooFewAreLeft) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .reconnect_grace = 0ms});
  run.start({"a", "b"});
  run.close("b");
  run.join("a");
  EXPECT_FALSE(run.last<Sealed>("a"));
  run.after(1s);
  ASSERT_TRUE(run.last<Progress>("a"));
  EXPECT_EQ(run.last<Progress>("a")->text, "round 1: 1 of 2 nodes joined; missing: b");
  run.hello("c");
  run.join("c");
  EXPECT_EQ(run.last<Sealed>("a")->rank, 0);
  EXPECT_EQ(run.last<Sealed>("c")->rank, 1);  // It fills the hole.
}

TEST(Coordinator, AClosedRunStillHearsThatAWorkerHasFailed) {
  ScriptedRun run({.min_nodes = 3, .max_nodes = 3, .max_restarts = 5});
  run.start({"a", "b", "c"});
  run.say("a", Done{.round = 0});
  run.say("a", Leave{.why = "did not wait any longer", .close = true});
  EXPECT_EQ(run.last<Stop>("c")->why, Stop::Why::Closed);
  run.fail("b", "rank 1 on b failed");
  EXPECT_EQ(run.last<Stop>("c")->why, Stop::Why::RunFailed);
  EXPECT_EQ(run.last<Stop>("c")->text, "rank 1 on b failed");
}

TEST(Coordinator, AClosedRunStillHearsThatANodeIsLost) {
  ScriptedRun run({.min_nodes = 3, .max_nodes = 3, .reconnect_grace = 0ms});
  run.start({"a", "b", "c"});
  run.say("a", Done{.round = 0});
  run.say("a", Leave{.why = "", .close = true});
  run.say("b", Done{.round = 0});
  run.close("b");  // It was done, too.
  EXPECT_EQ(run.last<Stop>("c")->why, Stop::Why::Closed);
  run.hello("d");
  run.close("d");
  EXPECT_EQ(run.last<Stop>("c")->why, Stop::Why::Closed);
}

TEST(Coordinator, AClosedRunHearsFromANodeThatComesBackThatItIsDone) {
  ScriptedRun run({.min_nodes = 3, .max_nodes = 3});
  run.start({"a", "b", "c"});
  run.say("a", Leave{.close = true});
  run.close("b");
  run.hello("b",
            {.running = Running{.place = {.round = 0, .rank = 1, .world_size = 3}, .done = true}});
  run.say("b", Leave{});
  EXPECT_EQ(run.last<Stop>("c")->why, Stop::Why::Closed);
}

TEST(Coordinator, ANodeThatIsDoneMayFallSilent) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2});
  run.start({"a", "b"});
  run.say("a", Done{.round = 0});
  run.after(10s, {"b"});
  EXPECT_FALSE(run.last<Stop>("b"));
  EXPECT_TRUE(run.closed("a"));
  run.say("b", Done{.round = 0});
  EXPECT_TRUE(run.last<Over>("b"));
}

TEST(Coordinator, ForgivesConnectionsThatWereLostWhileItStoodStill) {
  ScriptedRun run(
      {.min_nodes = 2, .max_nodes = 2, .heartbeat_limit = 5s, .reconnect_grace = 100ms});
  run.start({"a", "b"});
  run.now.instant = run.now.instant + 8s;  // The host did not call the machine meanwhile.
  run.close("a");
  run.close("b");
  run.after(2s);
  run.hello_again("a");
  run.hello_again("b");
  EXPECT_TRUE(run.last<Welcome>("a")->member);
  EXPECT_TRUE(run.last<Welcome>("b")->member);
  run.after(1s, {"a", "b"});
  run.close("b");
  run.after(6s, {"a"});
  EXPECT_TRUE(run.last<Stop>("a"));  // The forgiveness ends.
}

}  // namespace
}  // namespace regroup::core::coordinator
