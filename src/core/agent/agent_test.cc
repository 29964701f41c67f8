#include "core/agent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace regroup::core::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Kind = Order::Kind;
using Then = TellFailure::Then;
using What = Tell::What;

Instant at(Duration time) { return Instant{} + time; }

template <class T>
auto only(T effect) {
  return ElementsAre(Effect(effect));
}

const Order kMoreNodes{.kind = Kind::Rejoin, .text = "2 nodes want to come in"};
const Tell kTellMoreNodes{What::MembersChanged, "2 nodes want to come in"};
const Order kOver{.kind = Kind::Over};

Order failure(int restart_count, bool is_ours = false) {
  return {.kind = Kind::Rejoin,
          .text = "rank 3 failed",
          .is_failure = true,
          .is_ours = is_ours,
          .restart_count = restart_count};
}

Agent running(int max_restarts = 0) {
  Agent agent({.max_restarts = max_restarts});
  agent.begin();
  agent.on_joined();
  agent.on_started();
  return agent;
}

TEST(Agent, GoesThroughARunThatSucceeds) {
  Agent agent({});
  EXPECT_THAT(agent.begin(), only(Join{}));
  EXPECT_EQ(agent.state(), State::Init);
  EXPECT_THAT(agent.on_joined(), only(Start{0}));
  agent.on_started();
  EXPECT_EQ(agent.state(), State::Healthy);
  EXPECT_THAT(agent.on_group_over(GroupEnd::Succeeded, at(0s)), only(CheckIn{true}));
  EXPECT_EQ(agent.state(), State::Succeeded);
  EXPECT_THAT(agent.on_order(kOver),
              ElementsAre(Effect(Tell{What::CheckedIn, ""}), Effect(Leave{true})));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Succeeded}));
}

TEST(Agent, RestartsAsLongAsTheBudgetLasts) {
  Agent agent = running(2);
  for (int restart = 1; restart <= 2; ++restart) {
    EXPECT_THAT(agent.on_group_over(GroupEnd::Failed, at(0s)), only(Join{}));
    EXPECT_THAT(agent.on_joined(), only(Start{restart}));
    agent.on_started();
  }
  EXPECT_THAT(agent.on_group_over(GroupEnd::Failed, at(0s)), only(CheckIn{false}));
  EXPECT_EQ(agent.state(), State::Failed);
  // A spent budget is the one failure that ends the run for the others too.
  EXPECT_THAT(agent.on_order(kOver),
              ElementsAre(Effect(Tell{What::CheckedIn, ""}), Effect(Leave{true})));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Failed}));
}

TEST(Agent, KnowsAtOnceWhatFollowsFromAFailureWhereItCountsItsOwnRestarts) {
  Agent agent = running(1);
  EXPECT_THAT(agent.on_worker_failed(at(0s)),
              ElementsAre(Effect(Report{}), Effect(TellFailure{Then::Restart, 1})));
  agent.on_group_over(GroupEnd::Failed, at(0s));
  agent.on_joined();
  agent.on_started();
  EXPECT_THAT(agent.on_worker_failed(at(1s)),
              ElementsAre(Effect(Report{}), Effect(TellFailure{Then::End})));
}

TEST(Agent, JoinsAgainForNothingWhenTheMembersChange) {
  Agent agent = running(1);
  EXPECT_THAT(agent.on_order(kMoreNodes),
              ElementsAre(Effect(kTellMoreNodes), Effect(Stop{15, 30s})));
  EXPECT_THAT(agent.on_order(kMoreNodes), IsEmpty());  // Once.
  EXPECT_THAT(agent.on_group_over(GroupEnd::Stopped, at(0s)), only(Join{}));
  EXPECT_EQ(agent.state(), State::Stopped);
  EXPECT_THAT(agent.on_joined(), only(Start{0}));
  EXPECT_EQ(agent.state(), State::Stopped);
  agent.on_started();
  EXPECT_EQ(agent.state(), State::Healthy);
  EXPECT_EQ(agent.remaining_restarts(), 1);
}

TEST(Agent, AFailureWhileJoiningAgainCostsNothing) {
  Agent agent = running(0);
  agent.on_order(kMoreNodes);
  EXPECT_THAT(agent.on_group_over(GroupEnd::Failed, at(0s)), only(Join{}));
}

TEST(Agent, AFailureBeforeTheMembersChangedCounts) {
  Agent agent = running(0);
  agent.on_worker_failed(at(0s));
  agent.on_order(kMoreNodes);
  EXPECT_THAT(agent.on_group_over(GroupEnd::Failed, at(0s)), only(CheckIn{false}));
}

TEST(Agent, WorkersThatSucceedDuringAStopAreDone) {
  Agent agent = running(0);
  agent.on_order(kMoreNodes);
  EXPECT_THAT(agent.on_group_over(GroupEnd::Succeeded, at(0s)), only(CheckIn{true}));
}

TEST(Agent, ASignalStopsTheWorkersAndLeavesTheRunToTheOthers) {
  Agent agent = running(3);
  EXPECT_THAT(agent.on_signal({2}, at(0s)), only(Stop{2, 30s}));
  EXPECT_THAT(agent.on_signal({15}, at(0s)), only(Kill{}));
  EXPECT_THAT(agent.on_group_over(GroupEnd::Stopped, at(0s)), only(Leave{false}));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Signalled}));
}

TEST(Agent, ADoubledSignalLeavesTheGrace) {
  Agent agent = running(3);
  EXPECT_THAT(agent.on_signal({15}, at(10s)), only(Stop{15, 30s}));
  EXPECT_EQ(agent.meaning({15}, at(10s + 5ms)), SignalMeaning::Echo);
  EXPECT_THAT(agent.on_signal({15}, at(10s + 5ms)), IsEmpty());
  EXPECT_THAT(agent.on_signal({15}, at(12s)), only(Kill{}));
}

// ---- A signal that comes to us and to our workers ----

TEST(Agent, AWorkerThatASignalEndedJustBeforeWeGotItWasStoppedWithUs) {
  Agent agent = running(3);
  EXPECT_THAT(agent.on_worker_failed(at(10s), true), IsEmpty());
  EXPECT_THAT(agent.on_signal({15}, at(10s + 20ms)), only(Stop{15, 30s}));
  EXPECT_EQ(agent.next_deadline(), std::nullopt);
  EXPECT_THAT(agent.on_group_over(GroupEnd::Failed, at(11s)), only(Leave{false}));
  EXPECT_TRUE(agent.stopped_with_us());
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Signalled}));
}

TEST(Agent, ItWasAlsoStoppedWithUsIfAllOfThemHaveEndedBefore) {
  Agent agent = running(3);
  agent.on_worker_failed(at(10s), true);
  EXPECT_THAT(agent.on_group_over(GroupEnd::Failed, at(10s + 5ms)), IsEmpty());
  EXPECT_THAT(agent.on_signal({2}, at(10s + 20ms)), only(Leave{false}));
  EXPECT_TRUE(agent.stopped_with_us());
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Signalled}));
}

TEST(Agent, AWorkerThatIsSeenToHaveEndedWhenWeWereSignalledWasStoppedWithUs) {
  Agent agent = running(3);
  agent.on_signal({15}, at(10s));
  EXPECT_THAT(agent.on_worker_failed(at(10s), true), IsEmpty());
  EXPECT_TRUE(agent.stopped_with_us());
}

TEST(Agent, AnEndOfAnotherKindIsToldThoughWeWereSignalled) {
  Agent agent = running(3);
  agent.on_signal({15}, at(10s));
  EXPECT_THAT(agent.on_worker_failed(at(10s)), only(TellFailure{Then::End}));
  EXPECT_FALSE(agent.stopped_with_us());
}

TEST(Agent, AWorkerThatASignalEndedAloneIsStartedAgain) {
  Agent agent = running(1);
  agent.on_worker_failed(at(10s), true);
  EXPECT_THAT(agent.on_group_over(GroupEnd::Failed, at(10s + 5ms)), IsEmpty());
  EXPECT_EQ(agent.next_deadline(), at(10s + 250ms));
  EXPECT_THAT(agent.on_time(at(10s + 250ms)),
              ElementsAre(Effect(Report{}), Effect(TellFailure{Then::Restart, 1}), Effect(Join{})));
  EXPECT_THAT(agent.on_joined(), only(Start{1}));
}

TEST(Agent, TheWaitForASignalIsOverBeforeSlowWorkersHaveEnded) {
  Agent agent = running(1);
  agent.on_worker_failed(at(10s), true);
  EXPECT_THAT(agent.on_time(at(10s + 250ms)),
              ElementsAre(Effect(Report{}), Effect(TellFailure{Then::Restart, 1})));
  EXPECT_THAT(agent.on_group_over(GroupEnd::Failed, at(12s)), only(Join{}));
}

TEST(Agent, ASignalEndsAJoin) {
  Agent agent({});
  agent.begin();
  EXPECT_THAT(agent.on_signal({15}, at(0s)), only(GiveUpJoin{}));
  EXPECT_THAT(agent.on_join_failed(JoinFailure::GivenUp), only(Leave{false}));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Signalled}));
}

TEST(Agent, ASignalThatTheJoinDidNotHeedStartsNobody) {
  Agent agent({});
  agent.begin();
  agent.on_signal({15}, at(0s));
  EXPECT_THAT(agent.on_joined(), only(Leave{false}));
}

TEST(Agent, ASignalEndsTheWaitForTheOthersAndDoesNotEndTheirRun) {
  Agent agent = running();
  agent.on_group_over(GroupEnd::Succeeded, at(0s));
  EXPECT_THAT(
      agent.on_signal({15}, at(0s)),
      ElementsAre(Effect(Tell{What::CheckedIn, "the other nodes are not waited for any longer"}),
                  Effect(Leave{false})));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Signalled}));
}

TEST(Agent, WhoIsDoneLeavesARoundThatBrokeToTheOthers) {
  Agent agent = running();
  agent.on_group_over(GroupEnd::Succeeded, at(0s));
  EXPECT_THAT(agent.on_order({.kind = Kind::Over, .text = "a node is gone", .others_go_on = true}),
              ElementsAre(Effect(Tell{What::CheckedIn, "a node is gone"}), Effect(Leave{false})));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Succeeded}));
}

TEST(Agent, ASpareThatWasNotNeededSucceeds) {
  Agent agent({});
  agent.begin();
  EXPECT_THAT(agent.on_join_failed(JoinFailure::NotNeeded), only(Leave{false}));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::NotNeeded}));
}

TEST(Agent, WhoComesBackToARunThatFailedHasFailedWithIt) {
  Agent agent = running(3);
  agent.on_group_over(GroupEnd::Failed, at(0s));
  EXPECT_THAT(agent.on_join_failed(JoinFailure::RunFailed), only(Leave{false}));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Failed}));
}

TEST(Agent, LocalTroubleNeverClosesTheRun) {
  Agent joining({});
  joining.begin();
  EXPECT_THAT(joining.on_join_failed(JoinFailure::Failed), only(Leave{false}));
  EXPECT_THAT(joining.on_left(), only(Finish{Ending::CouldNotJoin}));

  Agent starting({.max_restarts = 5});
  starting.begin();
  starting.on_joined();
  EXPECT_THAT(starting.on_start_failed(), only(Leave{false}));
  EXPECT_EQ(starting.state(), State::Unknown);
  EXPECT_THAT(starting.on_left(), only(Finish{Ending::CouldNotStart}));

  Agent interrupted({.max_restarts = 5});
  interrupted.begin();
  interrupted.on_joined();
  EXPECT_THAT(interrupted.on_signal({15}, at(0s)), testing::IsEmpty());
  EXPECT_THAT(interrupted.on_start_failed(), only(Leave{false}));
  EXPECT_THAT(interrupted.on_left(), only(Finish{Ending::Signalled}));

  Agent stuck = running(5);
  EXPECT_THAT(stuck.on_group_over(GroupEnd::Survived, at(0s)), only(Leave{false}));
  EXPECT_EQ(stuck.state(), State::Unknown);
  EXPECT_THAT(stuck.on_left(), only(Finish{Ending::LeftBehind}));
}

TEST(Agent, EndsWhenAnotherNodeSaysThatTheRunHasFailed) {
  Agent agent = running(5);
  EXPECT_THAT(agent.on_order({.kind = Kind::RunFailed, .text = "rank 3 failed", .note = "a note"}),
              ElementsAre(Effect(Tell{What::RunFailed, "rank 3 failed"}), Effect(Stop{15, 30s})));
  EXPECT_EQ(agent.verdict().text, "rank 3 failed");
  EXPECT_EQ(agent.end_note(), "a note");
  EXPECT_THAT(agent.on_group_over(GroupEnd::Stopped, at(0s)), only(Leave{false}));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Failed}));
}

// ---- With a coordinator, which counts the restarts ----

Agent coordinated(int restart_count = 0, int max_restarts = 3) {
  Agent agent({.max_restarts = max_restarts});
  agent.begin();
  agent.on_joined(restart_count);
  agent.on_started();
  return agent;
}

TEST(CoordinatedAgent, StopsAtOnceForAFailureElsewhereAndStartsWithTheCountItIsTold) {
  Agent agent = coordinated();
  EXPECT_THAT(
      agent.on_order(failure(1)),
      ElementsAre(Effect(Tell{What::FailedElsewhere, "rank 3 failed", 1}), Effect(Stop{15, 30s})));
  EXPECT_THAT(agent.on_group_over(GroupEnd::Stopped, at(1s)), only(Join{}));
  EXPECT_THAT(agent.on_joined(1), only(Start{1}));
}

TEST(CoordinatedAgent, WaitsForTheWordAboutItsOwnFailure) {
  Agent agent = coordinated();
  agent.on_worker_failed(at(0s));
  EXPECT_THAT(agent.on_group_over(GroupEnd::Failed, at(1s)), only(Ask{}));
  EXPECT_THAT(agent.on_order(failure(1, true)),
              ElementsAre(Effect(TellFailure{Then::Restart, 1}), Effect(Join{})));
  EXPECT_EQ(agent.next_deadline(), std::nullopt);
}

TEST(CoordinatedAgent, TellsOfAFailureWithoutTheWordIfThatIsLate) {
  Agent agent = coordinated();
  EXPECT_THAT(agent.on_worker_failed(at(0s)), only(Report{}));
  agent.on_group_over(GroupEnd::Failed, at(500ms));
  EXPECT_EQ(agent.next_deadline(), at(1s));
  EXPECT_THAT(agent.on_time(at(1s)), only(TellFailure{Then::Undecided}));
  EXPECT_EQ(agent.next_deadline(), at(15500ms));
  // The restart is told of when it is decided.
  EXPECT_THAT(agent.on_order(failure(1, true)),
              ElementsAre(Effect(Tell{What::Restart, "", 1}), Effect(Join{})));
}

TEST(CoordinatedAgent, AFailureThatEndsTheRunPromisesNoRestart) {
  Agent agent = coordinated(0, 3);
  EXPECT_THAT(agent.on_worker_failed(at(0s)), only(Report{}));
  EXPECT_THAT(agent.on_order({.kind = Kind::RunFailed, .is_ours = true, .note = "exit code 7"}),
              only(TellFailure{Then::End}));
}

TEST(CoordinatedAgent, AFailureWhileTheMembersChangeCostsNoRestart) {
  Agent before = coordinated();
  before.on_worker_failed(at(0s));
  EXPECT_THAT(before.on_order(kMoreNodes),
              ElementsAre(Effect(TellFailure{Then::Rejoin}), Effect(kTellMoreNodes),
                          Effect(Stop{15, 30s})));
  Agent after = coordinated();
  after.on_order(kMoreNodes);
  EXPECT_THAT(after.on_worker_failed(at(0s)),
              ElementsAre(Effect(Report{}), Effect(TellFailure{Then::Rejoin})));
}

TEST(CoordinatedAgent, ASignalAfterAFailureIsTheEnd) {
  Agent agent = coordinated();
  agent.on_worker_failed(at(0s));
  EXPECT_THAT(agent.on_signal({15}, at(0s)),
              ElementsAre(Effect(TellFailure{Then::End}), Effect(Stop{15, 30s})));
  EXPECT_EQ(agent.next_deadline(), std::nullopt);
}

TEST(CoordinatedAgent, AWorkerThatASignalEndedCostsNothingIfAnotherNodeHasLeftMeanwhile) {
  Agent agent = coordinated();
  EXPECT_THAT(agent.on_worker_failed(at(10s), true), IsEmpty());
  EXPECT_THAT(
      agent.on_order({.kind = Kind::Rejoin, .text = "n1 has left"}),
      ElementsAre(Effect(Tell{What::MembersChanged, "n1 has left"}), Effect(Stop{15, 30s})));
  EXPECT_EQ(agent.next_deadline(), std::nullopt);
  EXPECT_THAT(agent.on_group_over(GroupEnd::Failed, at(10s)), only(Join{}));
}

TEST(CoordinatedAgent, ThatIsSoAlsoIfItsWorkersHaveEnded) {
  Agent agent = coordinated();
  agent.on_worker_failed(at(10s), true);
  agent.on_group_over(GroupEnd::Failed, at(10s));
  EXPECT_THAT(agent.on_order({.kind = Kind::Rejoin, .text = "n1 has left"}),
              ElementsAre(Effect(Tell{What::MembersChanged, "n1 has left"}), Effect(Join{})));
  EXPECT_EQ(agent.next_deadline(), std::nullopt);
}

TEST(CoordinatedAgent, AWorkerThatASignalEndedIsToldOfWithAFailureElsewhere) {
  Agent rejoins = coordinated();
  rejoins.on_worker_failed(at(10s), true);
  rejoins.on_group_over(GroupEnd::Failed, at(10s));
  EXPECT_THAT(rejoins.on_order(failure(1)),
              ElementsAre(Effect(TellFailure{Then::Rejoin}),
                          Effect(Tell{What::FailedElsewhere, "rank 3 failed", 1}), Effect(Join{})));
  Agent ends = coordinated();
  ends.on_worker_failed(at(10s), true);
  EXPECT_THAT(ends.on_order({.kind = Kind::RunFailed, .text = "rank 3 failed", .is_failure = true}),
              ElementsAre(Effect(TellFailure{Then::End}),
                          Effect(Tell{What::RunFailed, "rank 3 failed"}), Effect(Stop{15, 30s})));
  EXPECT_THAT(ends.on_group_over(GroupEnd::Failed, at(10s)), only(Leave{false}));
}

TEST(CoordinatedAgent, TheWordMayComeBeforeItsWorkersHaveEnded) {
  Agent agent = coordinated();
  agent.on_worker_failed(at(0s));
  EXPECT_THAT(agent.on_order(failure(1, true)), only(TellFailure{Then::Restart, 1}));
  EXPECT_THAT(agent.on_group_over(GroupEnd::Failed, at(1s)),
              ElementsAre(Effect(Ask{}), Effect(Join{})));
}

TEST(CoordinatedAgent, EndsWhenNoRestartIsLeft) {
  Agent agent = coordinated();
  agent.on_worker_failed(at(0s));
  agent.on_group_over(GroupEnd::Failed, at(0s));
  EXPECT_THAT(agent.on_order({.kind = Kind::RunFailed, .text = "rank 3 failed", .is_ours = true}),
              ElementsAre(Effect(TellFailure{Then::End}), Effect(Leave{false})));
  EXPECT_EQ(agent.verdict().text, "");  // The failure is our own: it is told in full.
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Failed}));
}

// It makes no difference whether the verdict comes before or after our workers have ended.
TEST(CoordinatedAgent, OfTwoFailuresInTheSameInstantTheCoordinatorsFirstIsTheCause) {
  const Order elsewhere{.kind = Kind::RunFailed, .text = "rank 3 failed", .is_failure = true};
  Agent early = coordinated();
  early.on_worker_failed(at(0s));
  EXPECT_THAT(early.on_order(elsewhere), only(TellFailure{Then::End}));
  EXPECT_THAT(early.on_group_over(GroupEnd::Failed, at(0s)),
              ElementsAre(Effect(Ask{}), Effect(Leave{false})));
  Agent late = coordinated();
  late.on_worker_failed(at(0s));
  EXPECT_THAT(late.on_group_over(GroupEnd::Failed, at(0s)), only(Ask{}));
  EXPECT_THAT(late.on_order(elsewhere),
              ElementsAre(Effect(TellFailure{Then::End}), Effect(Leave{false})));
  for (Agent* agent : {&early, &late}) {
    EXPECT_EQ(agent->verdict().text, "rank 3 failed");
    EXPECT_TRUE(agent->verdict().is_failure);
    EXPECT_THAT(agent->on_left(), only(Finish{Ending::Failed}));
  }
}

TEST(CoordinatedAgent, GoesByWhatItKnowsWhenNobodyDecides) {
  Agent some_left = coordinated(2, 3);
  some_left.on_group_over(GroupEnd::Failed, at(0s));
  EXPECT_THAT(some_left.on_time(at(14s)), IsEmpty());
  const auto nobody = [](const std::string& then) {
    return Effect(
        Tell{What::Nobody, "the coordinator has not said in time what follows from it; " + then});
  };
  EXPECT_THAT(some_left.on_time(at(15s)),
              ElementsAre(nobody("a restart is left, so this node joins again"), Effect(Join{})));

  Agent none_left = coordinated(3, 3);
  none_left.on_group_over(GroupEnd::Failed, at(0s));
  EXPECT_THAT(
      none_left.on_time(at(15s)),
      ElementsAre(nobody("as far as this node knows, no restart is left"), Effect(Leave{false})));

  Agent closed = coordinated(0, 3);
  closed.on_group_over(GroupEnd::Failed, at(0s));
  EXPECT_THAT(closed.on_order({.kind = Kind::Closed}), IsEmpty());
  EXPECT_THAT(closed.on_time(at(15s)),
              ElementsAre(nobody("the run is closed, so this node ends"), Effect(Leave{false})));
}

TEST(CoordinatedAgent, ASignalEndsTheWaitForTheWord) {
  Agent agent = coordinated();
  agent.on_group_over(GroupEnd::Failed, at(0s));
  EXPECT_THAT(agent.on_signal({15}, at(0s)), only(Leave{false}));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Signalled}));
}

TEST(CoordinatedAgent, AClosedRunIsWorkedToItsEnd) {
  Agent agent = coordinated();
  EXPECT_THAT(agent.on_order({.kind = Kind::Closed}), IsEmpty());
  EXPECT_THAT(
      agent.on_group_over(GroupEnd::Succeeded, at(1s)),
      ElementsAre(Effect(CheckIn{true}), Effect(Tell{What::CheckedIn, ""}), Effect(Leave{true})));
}

TEST(CoordinatedAgent, StopsWhenTheRunHasEndedWithoutIt) {
  Agent agent = coordinated();
  EXPECT_THAT(agent.on_order(kOver),
              ElementsAre(Effect(Tell{What::MembersChanged, "the run has ended without this node"}),
                          Effect(Stop{15, 30s})));
}

TEST(CoordinatedAgent, AFailureElsewhereBringsBackWhoIsDone) {
  Agent agent = coordinated();
  agent.on_group_over(GroupEnd::Succeeded, at(0s));
  EXPECT_THAT(agent.on_order(failure(1)),
              ElementsAre(Effect(Tell{What::FailedElsewhere, "rank 3 failed", 1}),
                          Effect(Tell{What::CheckedIn, ""}), Effect(Join{})));
  EXPECT_THAT(agent.on_joined(1), only(Start{1}));
}

TEST(CoordinatedAgent, WhatEndsAWaitForTheOthersIsToldOnce) {
  Agent agent = coordinated();
  agent.on_order(failure(1));
  EXPECT_THAT(
      agent.on_group_over(GroupEnd::Succeeded, at(0s)),
      ElementsAre(Effect(CheckIn{true}), Effect(Tell{What::CheckedIn, ""}), Effect(Join{})));
}

TEST(CoordinatedAgent, TheRestartIsToldOfWithTheFailureThatTheCoordinatorHeardOfFirst) {
  Agent early = coordinated();
  early.on_worker_failed(at(0s));
  EXPECT_THAT(
      early.on_order(failure(1)),
      ElementsAre(Effect(TellFailure{Then::Rejoin}),
                  Effect(Tell{What::FailedElsewhere, "rank 3 failed", 1}), Effect(Stop{15, 30s})));
  EXPECT_THAT(early.on_group_over(GroupEnd::Failed, at(0s)),
              ElementsAre(Effect(Ask{}), Effect(Join{})));
  Agent late = coordinated();
  late.on_worker_failed(at(0s));
  late.on_group_over(GroupEnd::Failed, at(0s));
  EXPECT_THAT(late.on_order(failure(1)),
              ElementsAre(Effect(TellFailure{Then::Rejoin}),
                          Effect(Tell{What::FailedElsewhere, "rank 3 failed", 1}), Effect(Join{})));
}

TEST(CoordinatedAgent, TheRunsLimitOfRestartsCounts) {
  Agent agent({.max_restarts = 5});
  agent.begin();
  agent.on_joined(1, 1);
  EXPECT_EQ(agent.max_restarts(), 1);
  EXPECT_EQ(agent.remaining_restarts(), 0);
}

TEST(CoordinatedAgent, WaitsForTheOthersAsLongAsItMay) {
  Agent agent = coordinated();
  agent.on_group_over(GroupEnd::Succeeded, at(0s));
  EXPECT_EQ(agent.next_deadline(), at(300s));
  EXPECT_THAT(
      agent.on_time(at(300s)),
      ElementsAre(
          Effect(Tell{What::CheckedIn,
                      "not every node has ended within the limit (--exit-barrier-timeout)"}),
          Effect(Leave{true})));
}

TEST(CoordinatedAgent, WaitsOnlyAMomentForACoordinatorThatIsGone) {
  Agent agent = coordinated();
  agent.on_reach(false, at(0s));
  agent.on_group_over(GroupEnd::Succeeded, at(100s));
  EXPECT_EQ(agent.next_deadline(), at(110s));
  agent.on_reach(true, at(105s));
  EXPECT_EQ(agent.next_deadline(), at(400s));
  agent.on_reach(false, at(200s));
  agent.on_reach(false, at(205s));
  EXPECT_THAT(
      agent.on_time(at(210s)),
      ElementsAre(Effect(Tell{What::CheckedIn,
                              "the coordinator is gone; the other nodes are not waited for"}),
                  Effect(Leave{true})));
}

}  // namespace
}  // namespace regroup::core::agent
