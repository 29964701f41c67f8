#include "core/coordinator/coordinator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/coordinator/coordinator_testing.h"

namespace regroup::core::coordinator {
namespace {

// It was once told that the round runs, with the members that had not left it yet.
TEST(Coordinator, ANodeThatWaitsForAStopIsToldSo) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 3, .last_call = 1s});
  run.start({"a", "b"});
  run.after(2s, {"a", "b"});
  ASSERT_TRUE(run.last<Sealed>("a"));
  run.start({"c"});
  ASSERT_TRUE(run.last<Stop>("a"));
  run.join("a");
  run.after(2s, {"a", "b", "c"});
  for (const char* name : {"a", "c"}) {
    ASSERT_TRUE(run.last<Progress>(name));
    EXPECT_EQ(run.last<Progress>(name)->text, "round 0 is being stopped: 1 node wants to come in");
    EXPECT_EQ(run.last<Progress>(name)->brief, "waiting for round 0 to be stopped");
  }
}

TEST(Coordinator, SealsAFullRoundAndGivesTheRanksOfWorkers) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2});
  run.hello("b", {.workers = 4});
  run.hello("a", {.workers = 2});
  run.join("b");
  EXPECT_FALSE(run.last<Sealed>("b"));
  run.join("a");
  const auto a = run.last<Sealed>("a");
  const auto b = run.last<Sealed>("b");
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->rank, 0);
  EXPECT_EQ(b->rank, 1);
  EXPECT_EQ(b->ranks.base_global_rank, 2);
  EXPECT_EQ(b->ranks.global_world_size, 6);
  EXPECT_TRUE(b->by_session);
  EXPECT_EQ(b->bootstrap, a->bootstrap);
  EXPECT_EQ(b->bootstrap.address, "a");
}

TEST(Coordinator, TellsEveryNodeOfTheFirstFailureAndNobodyOfTheNext) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .max_restarts = 3});
  run.start({"a", "b"});
  run.fail("b", "rank 1 on b: segmentation fault");
  run.fail("a", "rank 0 on a: broken pipe");
  for (const char* name : {"a", "b"}) {
    ASSERT_EQ(run.all<Stop>(name).size(), 1u) << name;
    const Stop stop = *run.last<Stop>(name);
    EXPECT_EQ(stop.why, Stop::Why::Failure);
    EXPECT_EQ(stop.text, "rank 1 on b: segmentation fault");
    EXPECT_EQ(stop.culprit, run.id("b"));
    EXPECT_EQ(stop.restart_count, 1);
  }
  run.join("b");
  EXPECT_FALSE(run.last<Sealed>("b"));
  run.join("a");
  EXPECT_EQ(run.last<Sealed>("a")->round, 1);
  EXPECT_EQ(run.last<Sealed>("a")->restart_count, 1);
  EXPECT_EQ(run.last<Sealed>("b")->restart_count, 1);
}

TEST(Coordinator, NeedsNoLastCallWhenTheMembersOfTheLastRoundAreBack) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 4, .max_restarts = 3});
  run.hello("a");
  run.hello("b");
  run.join("a");
  run.join("b");
  EXPECT_FALSE(run.last<Sealed>("a"));
  run.after(30s, {"a", "b"});
  EXPECT_FALSE(run.last<Sealed>("a"));
  run.after(1s);
  ASSERT_TRUE(run.last<Sealed>("a"));
  run.fail("a", "rank 0 failed");
  run.join("a");
  EXPECT_FALSE(run.last<Sealed>("a"));
  run.join("b");
  EXPECT_EQ(run.last<Sealed>("a")->world_size, 2);
}

TEST(Coordinator, TakesASpareInWhenAMemberIsLost) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .reconnect_grace = 0ms});
  run.start({"a", "b"});
  run.hello("s");
  run.join("s");
  run.after(2s);
  EXPECT_TRUE(run.last<Progress>("s")->spare);
  EXPECT_FALSE(run.last<Stop>("a"));
  run.close("b");
  run.join("a");
  ASSERT_TRUE(run.last<Sealed>("s"));
  EXPECT_EQ(run.last<Sealed>("s")->rank, 1);
}

TEST(Coordinator, PrefersAMemberThatCameBackToASpare) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .reconnect_grace = 0ms});
  run.start({"a", "b"});
  run.hello("s");
  run.join("s");
  run.close("b");
  run.forget("b");  // Its process was started again.
  run.hello("b");
  run.join("b");
  run.join("a");
  EXPECT_TRUE(run.last<Sealed>("b"));
  EXPECT_FALSE(run.last<Sealed>("s"));
}

TEST(Coordinator, SparesOfOneMachineDoNotTakeTheSeatsOfItsMembers) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .max_restarts = 1});
  run.start({"a", "b"});
  run.hello("s", {.name = "a"});
  run.join("s");
  run.fail("a", "failed");
  run.join("a");
  run.join("b");
  EXPECT_TRUE(run.last<Sealed>("a"));
  EXPECT_TRUE(run.last<Sealed>("b"));
  EXPECT_FALSE(run.last<Sealed>("s"));
}

TEST(Coordinator, SucceedsWhenAllAreDoneAndTellsTheSpares) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2});
  run.start({"a", "b"});
  run.hello("s");
  run.join("s");
  run.say("a", Done{.round = 0});
  EXPECT_FALSE(run.last<Over>("a"));
  run.close("a");  // It may leave: its work is done.
  run.after(10s, {"b", "s"});
  EXPECT_FALSE(run.last<Stop>("b"));
  run.say("b", Done{.round = 0});
  EXPECT_TRUE(run.last<Over>("b"));
  EXPECT_TRUE(run.last<Over>("s"));
  EXPECT_TRUE(run.machine.is_over());
}

TEST(Coordinator, SucceedsInWhateverOrderTheNodesAreDone) {
  std::vector<std::string> names{"a", "b", "c", "d"};
  const std::vector<std::string> all = names;
  do {
    ScriptedRun run({.min_nodes = 4, .max_nodes = 4});
    run.start(all);
    for (const std::string& name : names) {
      EXPECT_FALSE(run.machine.is_over());
      run.say(name, Done{.round = 0});
    }
    EXPECT_TRUE(run.machine.is_over());
  } while (std::next_permutation(names.begin(), names.end()));
}

TEST(Coordinator, AFailureStartsThoseThatAreDoneAgain) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .max_restarts = 1});
  run.start({"a", "b"});
  run.say("a", Done{.round = 0});
  run.fail("b", "rank 1 failed");
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::Failure);
  run.join("a");
  run.join("b");
  EXPECT_EQ(run.last<Sealed>("a")->round, 1);
  run.say("b", Done{.round = 1});
  EXPECT_FALSE(run.machine.is_over());  // What a has done in round 0 does not count.
}

TEST(Coordinator, LetsANewNodeInByStoppingTheRound) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 3, .last_call = 1s});
  run.hello("a");
  run.join("a");
  run.after(1001ms);
  ASSERT_TRUE(run.last<Sealed>("a"));
  run.hello("b");
  run.join("b");
  EXPECT_EQ(run.last<Stop>("a")->text, "1 node wants to come in");
  run.join("a");
  EXPECT_EQ(run.last<Sealed>("a")->world_size, 2);
  EXPECT_EQ(run.last<Sealed>("b")->rank, 1);
}

TEST(Coordinator, HandsAWarningOnToTheWorkersOfAllOtherNodes) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2});
  run.start({"a", "b"});
  run.hello("s");
  run.join("s");
  run.say("b", Warn{.signal = 10});
  EXPECT_EQ(run.last<Warned>("a"), (Warned{.signal = 10, .node = "b"}));
  EXPECT_FALSE(run.last<Warned>("b"));
  EXPECT_FALSE(run.last<Warned>("s"));  // It has no workers.
}

TEST(Coordinator, ANodeThatLeavesIsMissedAtOnce) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 2});
  run.start({"a", "b"});
  run.say("b", Leave{.why = "SIGTERM"});
  EXPECT_EQ(run.last<Stop>("a")->text, "b has left: SIGTERM");
}

TEST(Coordinator, ASpareKnowsThatItIsOneBeforeTheEnd) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 1});
  run.start({"a"});
  run.hello("s");
  run.join("s");
  run.say("a", Done{.round = 0});
  ASSERT_TRUE(run.last<Progress>("s"));
  EXPECT_TRUE(run.last<Progress>("s")->spare);
  EXPECT_TRUE(run.last<Over>("s"));
}

TEST(Coordinator, ASpareWarnsNobody) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2});
  run.start({"a", "b"});
  run.start({"spare"});
  run.say("spare", Warn{.signal = 9});
  EXPECT_FALSE(run.last<Warned>("a"));
  run.say("b", Warn{.signal = 10});
  EXPECT_TRUE(run.last<Warned>("a"));
}

TEST(Coordinator, TenThousandNodesAreSealedAtOnceWithOneMessageEach) {
  constexpr int kNodes = 10'000;
  ScriptedRun run({.min_nodes = kNodes, .max_nodes = kNodes});
  for (int i = 0; i < kNodes; ++i) run.hello("n" + std::to_string(i));
  for (int i = 0; i < kNodes; ++i) run.join("n" + std::to_string(i));
  for (int i = 0; i < kNodes; i += 997) {
    const std::string name = "n" + std::to_string(i);
    EXPECT_EQ(run.all<Sealed>(name).size(), 1u);
    EXPECT_EQ(run.last<Sealed>(name)->rank, i);
  }
}

}  // namespace
}  // namespace regroup::core::coordinator
