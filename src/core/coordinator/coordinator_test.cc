#include "core/coordinator/coordinator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/coordinator/coordinator_testing.h"

namespace regroup::core::coordinator {
namespace {

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
  // Who comes later hears the same.
  run.hello("d");
  run.join("d");
  EXPECT_EQ(run.last<Stop>("d")->text, "rank 2 on c: out of memory");
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
  run.fail("a", "slow");  // Breaks the row.
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
  // Nor when it is started again.
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
  EXPECT_EQ(run.last<Sealed>("c")->rank, 1);  // The hole.
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
  run.close("a");  // It may go: its part is done.
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
  ASSERT_TRUE(run.last<Sealed>("x"));  // Nobody waits for the members of such a round.
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
  run.close("b");  // Was done, too.
  EXPECT_EQ(run.last<Stop>("c")->why, Stop::Why::Closed);
  run.hello("d");
  run.close("d");
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
  run.now.instant = run.now.instant + 8s;  // Nobody called us.
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
  EXPECT_TRUE(run.last<Stop>("a"));  // Not for ever.
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

TEST(Coordinator, ANodeWithoutASessionIsInTheSameRound) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2});
  run.hello("a");
  run.join("a");
  rendezvous::State state = run.machine.state_for_others(run.now);
  EXPECT_TRUE(state.participants.contains(run.id("a")));
  const rendezvous::NodeId other{.address = "t", .pid = 1, .local_id = 0};
  const rendezvous::Settings settings{.run_id = "r", .min_nodes = 2, .max_nodes = 2};
  state = apply(std::move(state), rendezvous::Action::AddToParticipants,
                {.node = other, .claim = {}, .utc = run.now.utc}, settings);
  state.claims.erase(other);  // torchrun makes none.
  run.swap(std::move(state));
  ASSERT_TRUE(run.last<Sealed>("a"));
  EXPECT_FALSE(run.last<Sealed>("a")->by_session);
  EXPECT_EQ(run.last<Sealed>("a")->world_size, 2);
  // It leaves to join again, as torchrun does when a worker of its own fails.
  state = run.machine.state_for_others(run.now);
  state.participants.erase(other);
  run.swap(std::move(state));
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::Members);
}

TEST(Coordinator, ANodeWithoutASessionThatFallsSilentIsMissed) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 2, .last_call = 1s});
  run.hello("a");
  run.join("a");
  rendezvous::State state = run.machine.state_for_others(run.now);
  const rendezvous::NodeId other{.address = "t", .pid = 1, .local_id = 0};
  state = apply(std::move(state), rendezvous::Action::AddToParticipants,
                {.node = other, .claim = {}, .utc = run.now.utc},
                {.run_id = "r", .min_nodes = 1, .max_nodes = 2});
  run.swap(std::move(state));
  ASSERT_TRUE(run.last<Sealed>("a"));
  run.after(14s, {"a"});
  EXPECT_FALSE(run.last<Stop>("a"));
  run.after(3s, {"a"});
  EXPECT_TRUE(run.last<Stop>("a"));
}

TEST(Coordinator, ANodeWithoutASessionThatWaitsHasTimeToComeIn) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 3});
  run.start({"a", "b"});
  run.after(31s, {"a", "b"});
  ASSERT_EQ(run.last<Sealed>("b")->world_size, 2);
  const rendezvous::NodeId other{.address = "t", .pid = 1, .local_id = 0};
  const rendezvous::Settings settings{.run_id = "r", .min_nodes = 1, .max_nodes = 3};
  const auto other_does = [&](rendezvous::Action action) {
    rendezvous::State state = run.machine.state_for_others(run.now);
    state =
        apply(std::move(state), action, {.node = other, .claim = {}, .utc = run.now.utc}, settings);
    state.claims.erase(other);  // torchrun makes none.
    run.swap(std::move(state));
  };
  other_does(rendezvous::Action::AddToWaitList);
  ASSERT_EQ(run.last<Stop>("a")->why, Stop::Why::Members);
  run.join("a");
  run.join("b");
  run.after(1s, {"a", "b"});  // It looks about so often.
  EXPECT_FALSE(run.last<Sealed>("a"));
  other_does(rendezvous::Action::AddToParticipants);
  ASSERT_TRUE(run.last<Sealed>("a"));
  EXPECT_EQ(run.last<Sealed>("a")->world_size, 3);
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

TEST(Coordinator, AClosedStateEndsTheRunForItsSessions) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 1});
  run.start({"a"});
  rendezvous::State state = run.machine.state_for_others(run.now);
  state.closed = true;
  run.swap(std::move(state));
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::Closed);
  EXPECT_TRUE(run.machine.is_over());
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
