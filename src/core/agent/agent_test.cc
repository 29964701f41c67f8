#include "core/agent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace regroup::core::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

template <class T>
auto only(T effect) {
  return ElementsAre(Effect(effect));
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
  EXPECT_THAT(agent.on_group_over(GroupEnd::Succeeded), only(CheckIn{true}));
  EXPECT_EQ(agent.state(), State::Succeeded);
  EXPECT_THAT(agent.on_checked_in(), only(Leave{true}));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Succeeded}));
}

TEST(Agent, RestartsAsLongAsTheBudgetLasts) {
  Agent agent = running(2);
  for (int restart = 1; restart <= 2; ++restart) {
    EXPECT_THAT(agent.on_group_over(GroupEnd::Failed), only(Join{}));
    EXPECT_THAT(agent.on_joined(), only(Start{restart}));
    agent.on_started();
  }
  EXPECT_THAT(agent.on_group_over(GroupEnd::Failed), only(CheckIn{false}));
  EXPECT_EQ(agent.state(), State::Failed);
  // A spent budget is the one failure that ends the run for the others too.
  EXPECT_THAT(agent.on_checked_in(), only(Leave{true}));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Failed}));
}

TEST(Agent, JoinsAgainForNothingWhenTheMembersChange) {
  Agent agent = running(1);
  EXPECT_THAT(agent.on_members_changed(), only(Stop{15, 30s}));
  EXPECT_THAT(agent.on_members_changed(), IsEmpty());  // Once.
  EXPECT_THAT(agent.on_group_over(GroupEnd::Stopped), only(Join{}));
  EXPECT_EQ(agent.state(), State::Init);
  EXPECT_THAT(agent.on_joined(), only(Start{0}));
  EXPECT_EQ(agent.remaining_restarts(), 1);
}

TEST(Agent, AFailureWhileJoiningAgainCostsNothing) {
  Agent agent = running(0);
  agent.on_members_changed();
  EXPECT_THAT(agent.on_group_over(GroupEnd::Failed), only(Join{}));
}

TEST(Agent, AFailureBeforeTheMembersChangedCounts) {
  Agent agent = running(0);
  agent.on_worker_failed();
  agent.on_members_changed();
  EXPECT_THAT(agent.on_group_over(GroupEnd::Failed), only(CheckIn{false}));
}

TEST(Agent, WorkersThatSucceedDuringAStopAreDone) {
  Agent agent = running(0);
  agent.on_members_changed();
  EXPECT_THAT(agent.on_group_over(GroupEnd::Succeeded), only(CheckIn{true}));
}

TEST(Agent, ASignalStopsTheWorkersAndLeavesTheRunToTheOthers) {
  Agent agent = running(3);
  EXPECT_THAT(agent.on_signal(2), only(Stop{2, 30s}));
  EXPECT_THAT(agent.on_signal(15), only(Kill{}));
  EXPECT_THAT(agent.on_group_over(GroupEnd::Stopped), only(Leave{false}));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Signalled}));
}

TEST(Agent, ASignalEndsAJoin) {
  Agent agent({});
  agent.begin();
  EXPECT_THAT(agent.on_signal(15), only(GiveUpJoin{}));
  EXPECT_THAT(agent.on_join_failed(JoinFailure::GivenUp), only(Leave{false}));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Signalled}));
}

TEST(Agent, ASignalThatTheJoinDidNotHeedStartsNobody) {
  Agent agent({});
  agent.begin();
  agent.on_signal(15);
  EXPECT_THAT(agent.on_joined(), only(Leave{false}));
}

TEST(Agent, ASignalEndsTheWaitForTheOthersAndDoesNotEndTheirRun) {
  Agent agent = running();
  agent.on_group_over(GroupEnd::Succeeded);
  EXPECT_THAT(agent.on_signal(15), only(GiveUpCheckIn{}));
  EXPECT_THAT(agent.on_checked_in(), only(Leave{false}));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Signalled}));
}

TEST(Agent, ASpareThatWasNotNeededSucceeds) {
  Agent agent({});
  agent.begin();
  EXPECT_THAT(agent.on_join_failed(JoinFailure::NotNeeded), only(Leave{false}));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::NotNeeded}));
}

TEST(Agent, WhoComesBackToARunThatFailedHasFailedWithIt) {
  Agent agent = running(3);
  agent.on_group_over(GroupEnd::Failed);
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
  EXPECT_THAT(starting.on_left(), only(Finish{Ending::CouldNotStart}));

  Agent stuck = running(5);
  EXPECT_THAT(stuck.on_group_over(GroupEnd::Survived), only(Leave{false}));
  EXPECT_THAT(stuck.on_left(), only(Finish{Ending::LeftBehind}));
}

TEST(Agent, EndsWhenAnotherNodeSaysThatTheRunHasFailed) {
  Agent agent = running(5);
  EXPECT_THAT(agent.on_run_failed(), only(Stop{15, 30s}));
  EXPECT_THAT(agent.on_group_over(GroupEnd::Stopped), only(Leave{false}));
  EXPECT_THAT(agent.on_left(), only(Finish{Ending::Failed}));
}

}  // namespace
}  // namespace regroup::core::agent
