// A coordinator that was started again, and connections that were lost and found.
#include <gtest/gtest.h>

#include "core/coordinator/coordinator_testing.h"

namespace regroup::core::coordinator {
namespace {

using rendezvous::HeldRank;

Running in_round(std::int64_t round, std::int64_t rank, std::int64_t world_size) {
  return {.place = {.round = round, .rank = rank, .world_size = world_size}, .restart_count = 0};
}

TEST(Restoring, RoundsAreCountedOnFromWhatNodesHaveBeenIn) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2});
  run.hello("a", {.held = HeldRank{.round = 5, .rank = 0, .world_size = 2}});
  run.join("a");
  run.hello("b", {.held = HeldRank{.round = 7, .rank = 1, .world_size = 2}});
  run.join("b");
  run.after(6s, {"a", "b"});
  ASSERT_TRUE(run.last<Sealed>("a"));
  EXPECT_EQ(run.last<Sealed>("a")->round, 8);
}

TEST(Restoring, ALaterHelloRaisesTheNextRoundToo) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 1});
  run.start({"a"});
  ASSERT_EQ(run.last<Sealed>("a")->round, 0);
  run.hello("b", {.running = in_round(6, 0, 1)});
  EXPECT_EQ(run.last<Stop>("b")->round, 6);
  run.join("b");
  run.close("a");
  run.after(1s);
  ASSERT_TRUE(run.last<Sealed>("b"));
  EXPECT_EQ(run.last<Sealed>("b")->round, 7);
}

TEST(Restoring, RestartsThatWereToldAreNotForgotten) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 1, .max_restarts = 3});
  run.hello("a", {.restarts = 3, .again = true});
  run.join("a");
  run.after(6s, {"a"});
  ASSERT_TRUE(run.last<Sealed>("a"));
  EXPECT_EQ(run.last<Sealed>("a")->restart_count, 3);
  run.fail("a", "rank 0 failed");
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::RunFailed);
}

TEST(Restoring, WhoJoinsFirstDoesNotEndARoundThatRuns) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 3});
  run.hello("s", {.again = true});
  run.join("s");
  run.hello("a", {.running = in_round(4, 0, 2)});
  run.hello("b", {.running = in_round(4, 1, 2)});
  EXPECT_TRUE(run.last<Welcome>("a")->member);
  EXPECT_TRUE(run.last<Welcome>("b")->member);
  EXPECT_FALSE(run.last<Sealed>("s"));
}

TEST(Restoring, NobodyIsLetInBeforeTheMembersHadTimeToComeBack) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 1, .heartbeat_limit = 5s});
  run.hello("s", {.again = true});  // A spare of the time before.
  run.join("s");
  run.after(4s, {"s"});
  EXPECT_FALSE(run.last<Sealed>("s"));
  run.after(2s, {"s"});
  EXPECT_TRUE(run.last<Sealed>("s"));
}

TEST(Restoring, AFirstRoundIsNotHeldUp) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2});
  run.start({"a"});
  run.close("a");
  run.hello("a", {.again = true});  // We have seen it ourselves.
  run.join("a");
  run.start({"b"});
  EXPECT_TRUE(run.last<Sealed>("a"));
}

TEST(Restoring, TheLaterRoundIsTheRightOne) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 2});
  // It was cut off, and does not know of the later round.
  run.hello("old", {.running = in_round(3, 0, 1)});
  EXPECT_TRUE(run.last<Welcome>("old")->member);
  run.after(1s);
  run.hello("new", {.running = in_round(5, 0, 1)});
  EXPECT_TRUE(run.last<Welcome>("new")->member);
  ASSERT_TRUE(run.last<Stop>("old"));
  EXPECT_EQ(run.last<Stop>("old")->round, 3);
  EXPECT_FALSE(run.last<Stop>("new"));
}

TEST(Restoring, TheFailureOfAnOldRoundDoesNotEndTheRun) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 2, .max_restarts = 0});
  run.hello("old", {.running = in_round(3, 0, 1)});
  run.say("old", Failed{.round = 3, .failure = {.text = "rank 0 failed"}});
  run.hello("new", {.running = in_round(5, 0, 1)});
  run.after(4s, {"old", "new"});
  EXPECT_FALSE(run.machine.is_over());
}

TEST(Restoring, AFailureIsJudgedWhenTheMembersHadTimeToComeBack) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 1, .max_restarts = 0});
  run.hello("a", {.running = in_round(3, 0, 1)});
  run.say("a", Failed{.round = 3, .failure = {.text = "rank 0 failed"}});
  EXPECT_FALSE(run.last<Stop>("a"));
  run.after(6s, {"a"});
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::RunFailed);
}

TEST(Restoring, WhoComesAfterTheOthersHaveGoneAgainIsWaitedFor) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 2});
  run.hello("s", {.again = true});
  run.join("s");
  run.hello("a", {.running = in_round(3, 0, 2)});
  run.say("a", Leave{});
  run.hello("b", {.running = in_round(3, 1, 2)});
  EXPECT_EQ(run.last<Stop>("b")->text, "a node of the round is gone");
  run.after(20s, {"b", "s"});
  EXPECT_FALSE(run.last<Sealed>("s"));  // The workers of b are still there.
  run.join("b");
  EXPECT_TRUE(run.last<Sealed>("s"));
  EXPECT_TRUE(run.last<Sealed>("b"));
}

TEST(Restoring, ALastCallThatEndsMeanwhileDoesNotMakeItSpin) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 2, .last_call = 1s});
  run.start({"a"});
  run.hello("s", {.again = true});
  run.after(2s, {"a", "s"});
  ASSERT_TRUE(run.machine.next_deadline());
  EXPECT_GT(*run.machine.next_deadline(), run.now.instant);
  EXPECT_FALSE(run.last<Sealed>("a"));
  run.after(4s, {"a", "s"});
  EXPECT_TRUE(run.last<Sealed>("a"));
}

TEST(Reconnect, AMemberWhoseWorkersAreBeingStoppedMayComeBackToo) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 2, .max_restarts = 1, .reconnect_grace = 100ms});
  run.start({"a", "b"});
  run.fail("a", "rank 0 failed");
  run.join("a");
  run.close("b");
  EXPECT_FALSE(run.last<Sealed>("a"));
  run.after(50ms);
  run.hello_again("b");
  EXPECT_EQ(run.last<Stop>("b")->text, "rank 0 failed");
  run.after(10s, {"a", "b"});
  EXPECT_FALSE(run.last<Sealed>("a"));
  run.join("b");
  EXPECT_EQ(run.last<Sealed>("a")->world_size, 2);
}

TEST(Reconnect, AJoinThatIsSaidAgainDoesNotLeaveTheRoundThatCameMeanwhile) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2});
  run.start({"a"});
  run.hello("a");  // Its connection was lost, and it says both again.
  run.start({"b"});
  ASSERT_TRUE(run.last<Sealed>("a"));
  run.say("a", Join{.number = run.joined.at("a"), .bootstrap = {.address = "a", .port = 4711}});
  EXPECT_FALSE(run.last<Stop>("b"));
  EXPECT_EQ(run.machine.state().participants.size(), 2u);
  run.fail("b", "rank 1 failed");
  EXPECT_TRUE(run.last<Stop>("a"));
}

TEST(Reconnect, AStopThatWasLostWithTheSealIsSaidAgainToo) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .max_restarts = 1});
  run.start({"a", "b"});
  run.fail("b", "rank 1 failed");
  run.hello("a");  // It was told neither.
  run.inbox["a"].clear();
  run.say("a", Join{.number = run.joined.at("a"), .bootstrap = {.address = "a", .port = 4711}});
  EXPECT_TRUE(run.last<Sealed>("a"));
  ASSERT_TRUE(run.last<Stop>("a"));
  EXPECT_EQ(run.last<Stop>("a")->text, "rank 1 failed");
}

TEST(Reconnect, AJoinAfterASealThatWasLostLeavesTheRound) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2});
  run.start({"a", "b"});
  run.hello("a");  // It was not told of the seal.
  run.join("a");
  EXPECT_TRUE(run.last<Stop>("b"));
  run.join("b");
  EXPECT_EQ(run.last<Sealed>("a")->round, 1);
}

TEST(Coordinator, StartedAgainItLearnsTheRoundFromItsMembers) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .max_restarts = 3});
  const auto running = [](std::int64_t rank) {
    return Running{.place = {.round = 7, .rank = rank, .world_size = 2}, .restart_count = 2};
  };
  run.hello("a", {.running = running(0)});
  run.hello("b", {.running = running(1)});
  EXPECT_TRUE(run.last<Welcome>("a")->member);
  EXPECT_TRUE(run.last<Welcome>("b")->member);
  run.after(4s);
  run.say("a", Ping{});
  run.say("b", Ping{});
  run.after(4s);
  EXPECT_FALSE(run.last<Stop>("a"));
  run.say("b", Failed{.round = 7, .failure = {.node = "b", .text = "rank 1 failed"}});
  run.join("a");
  run.join("b");
  EXPECT_EQ(run.last<Sealed>("a")->round, 8);
  EXPECT_EQ(run.last<Sealed>("a")->restart_count, 3);
}

TEST(Coordinator, StartedAgainItBelievesNoPlaceThatCannotBe) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 2, .last_call = 1s});
  run.hello("x", {.running = Running{.place = {.round = 7, .rank = 2, .world_size = 2}}});
  run.hello("y", {.running = Running{.place = {.round = 7, .rank = 0, .world_size = 0}}});
  EXPECT_FALSE(run.last<Welcome>("x")->member);
  EXPECT_FALSE(run.last<Welcome>("y")->member);
  run.join("x");
  run.join("y");
  ASSERT_TRUE(run.last<Sealed>("x"));  // The members of such a round are not waited for.
}

TEST(Coordinator, AWorldIsNoLargerInMemoryThanThoseWhoHaveCome) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 2});
  constexpr std::int64_t kHuge = std::int64_t{1} << 61;
  run.hello("a",
            {.running = Running{.place = {.round = 7, .rank = kHuge - 1, .world_size = kHuge}}});
  EXPECT_TRUE(run.last<Welcome>("a")->member);
  run.after(4s, {"a"});
  run.after(2s);
  EXPECT_TRUE(run.last<Stop>("a"));  // The others have not come back.
  run.join("a");
  EXPECT_EQ(run.last<Sealed>("a")->world_size, 1);
}

TEST(Coordinator, StartedAgainItDoesNotWaitForEverForAMember) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 2});
  run.hello("a", {.running = Running{.place = {.round = 7, .rank = 1, .world_size = 2}}});
  run.after(4s);
  run.say("a", Ping{});
  EXPECT_FALSE(run.last<Stop>("a"));
  run.after(1s);
  ASSERT_TRUE(run.last<Stop>("a"));
  run.join("a");
  EXPECT_EQ(run.last<Sealed>("a")->world_size, 1);
}

TEST(Coordinator, AMemberOfAnOlderRoundIsToldToJoinAgain) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 2, .reconnect_grace = 0ms});
  run.start({"a", "b"});
  run.close("b");
  run.join("a");
  ASSERT_EQ(run.last<Sealed>("a")->round, 1);
  run.hello("b", {.running = Running{.place = {.round = 0, .rank = 1, .world_size = 2}}});
  EXPECT_FALSE(run.last<Welcome>("b")->member);
  EXPECT_EQ(run.last<Stop>("b")->round, 0);
}

}  // namespace
}  // namespace regroup::core::coordinator
