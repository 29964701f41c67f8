// Runs with a coordinator in which some nodes have no session.
#include "sim/session/session_others.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/session/session_world.h"

namespace regroup::sim {
namespace {

using testing::HasSubstr;

void expect_good(Options options) {
  options.coordinator = true;
  const Report report = SessionWorld(options).run();
  EXPECT_FALSE(report.violation) << *report.violation << "\n" << replay_line(options);
}

std::int64_t torchrun_in(const SessionPlan& plan) {
  std::int64_t count = 0;
  for (const NodePlan& node : plan.others.nodes) count += node.torchrun ? 1 : 0;
  return count;
}

TEST(MixedPlan, IsThatOfAThirdOfTheSeeds) {
  int mixed = 0;
  int with_torchrun = 0;
  int without = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const SessionPlan plan = make_session_plan({.seed = seed});
    ASSERT_FALSE(plan.nodes.empty()) << seed;  // One node at least has a session.
    if (!is_mixed(plan)) continue;
    ++mixed;
    ++(torchrun_in(plan) > 0 ? with_torchrun : without);
    EXPECT_EQ(plan.others.settings.last_call_timeout, plan.rules.last_call);
    EXPECT_TRUE(core::rendezvous::validate(plan.others.settings));
  }
  EXPECT_GT(mixed, 150);
  EXPECT_LT(mixed, 250);
  EXPECT_GT(with_torchrun, 50);
  EXPECT_GT(without, 20);
}

TEST(MixedPlan, HasAsManyTorchrunNodesAsAreAskedFor) {
  const SessionPlan two = make_session_plan({.seed = 4, .nodes = 5, .torchrun_nodes = 2});
  EXPECT_EQ(two.nodes.size(), 3u);
  EXPECT_EQ(two.others.nodes.size(), 2u);
  EXPECT_EQ(torchrun_in(two), 2);
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    EXPECT_FALSE(is_mixed(make_session_plan({.seed = seed, .torchrun_nodes = 0})));
  // One keeps its session, however many are asked for.
  EXPECT_EQ(make_session_plan({.seed = 4, .torchrun_nodes = 60}).nodes.size(), 1u);
}

TEST(MixedPlan, LeavesTheOtherChoicesOfASeedAlone) {
  const SessionPlan all = make_session_plan({.seed = 4, .nodes = 5, .torchrun_nodes = 0});
  const SessionPlan some = make_session_plan({.seed = 4, .nodes = 5, .torchrun_nodes = 2});
  EXPECT_EQ(all.seed, some.seed);
  EXPECT_EQ(all.rules.max_nodes, some.rules.max_nodes);
  EXPECT_EQ(all.chaos, some.chaos);
}

TEST(MixedWorld, KeepsItsInvariantsWithTorchrunNodes) {
  for (std::uint64_t seed = 2'000'000; seed < 2'000'150; ++seed)
    expect_good({.seed = seed, .torchrun_nodes = static_cast<std::int64_t>(1 + seed % 3)});
}

TEST(MixedWorld, MeetsInGoodWeatherToo) {
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    expect_good({.seed = seed, .faults = FaultLevel::None, .torchrun_nodes = 2});
}

TEST(MixedWorld, ReallyHasRoundsOfBothKinds) {
  Totals totals;
  int with_others = 0;
  const Trace trace([&](std::string_view line) {
    if (line.find("with others") != std::string_view::npos) ++with_others;
  });
  for (std::uint64_t seed = 0; seed < 30; ++seed)
    totals.add(SessionWorld({.seed = seed, .torchrun_nodes = 2}, trace).run().totals);
  EXPECT_GT(with_others, 50);
  for (const std::int64_t count :
       {totals.joins, totals.swaps_won, totals.swaps_lost, totals.lost_messages, totals.crashes})
    EXPECT_GT(count, 50);
}

// --- seeds that have found a mistake ----------------------------------------------------------

// In a closed run, the coordinator no longer heard a node without a session, and took it for lost.
TEST(MixedWorld, Seed2ItsHeartbeatsCountInAClosedRun) { expect_good({.seed = 2}); }

// Spares were told again what they waited for at each heartbeat of a node without a session.
TEST(MixedWorld, Seed10ItsHeartbeatsAreNoNews) { expect_good({.seed = 10}); }

// A mistake of the simulator: a torchrun process whose store was gone tried to close the run
// for ever.
TEST(MixedWorld, Seed301773ATorchrunNodeClosesTheRunOnce) {
  expect_good({.seed = 301773, .nodes = 12, .faults = FaultLevel::Heavy});
}

// --- worlds that are wrong on purpose ---------------------------------------------------------

std::string first_violation(Broken broken) {
  for (std::uint64_t seed = 0; seed < 300; ++seed)
    if (const auto violation = SessionWorld({.seed = seed, .broken = broken}).run().violation)
      return *violation;
  return "none";
}

TEST(BrokenMixedWorld, ASwapThatTheCoordinatorDoesNotHearOfIsNoticed) {
  EXPECT_THAT(first_violation(Broken::IgnoresSwaps), HasSubstr("the coordinator dropped"));
}

TEST(BrokenMixedWorld, WhoseSessionIsNotShownIsDropped) {
  EXPECT_THAT(first_violation(Broken::OldStamps), HasSubstr("which has a session"));
}

TEST(BrokenMixedWorld, ALateSwapThatIsAppliedWithoutItsTokenIsNoticed) {
  EXPECT_NE(first_violation(Broken::NoTokens), "none");
}

// --- each invariant ---------------------------------------------------------------------------

core::rendezvous::NodeId id_of(const std::string& name) {
  return {.address = name, .pid = 1, .local_id = 0};
}

SessionView running(const std::string& name, std::int64_t round) {
  return {.id = id_of(name), .workers = 1, .runs = round, .connected = true};
}

class MixedInvariants : public testing::Test {
 protected:
  MixedInvariants() {
    plan_.rules.min_nodes = 2;
    plan_.rules.max_nodes = 4;
    invariants_.life_began({});
  }
  std::string violation() const { return invariants_.violation().value_or("none"); }

  SessionPlan plan_;
  SessionInvariants invariants_{plan_};
  core::rendezvous::State state_;
};

TEST_F(MixedInvariants, ARoundThatOneHasLeftIsStoppedAtOnce) {
  invariants_.other_left(id_of("t"), 3);
  invariants_.said_all({running("a", 4)}, state_, {});
  EXPECT_EQ(violation(), "none");
  invariants_.other_left(id_of("t"), 4);
  invariants_.said_all({running("a", 4)}, state_, {});
  EXPECT_THAT(violation(), HasSubstr("a runs on in round 4"));
}

TEST_F(MixedInvariants, OneThatWasToldToStopMayStillRun) {
  invariants_.other_left(id_of("t"), 4);
  invariants_.told(0, id_of("a"), core::coordinator::Stop{.round = 4}, {});
  invariants_.said_all({running("a", 4)}, state_, {});
  EXPECT_EQ(violation(), "none");
}

TEST_F(MixedInvariants, ARoundOfOthersDoesNotBeginBesideOldWorkers) {
  invariants_.others_sealed(1, {}, {});
  EXPECT_EQ(violation(), "none");
  invariants_.others_sealed(2, {running("a", 1)}, {});
  EXPECT_THAT(violation(), HasSubstr("round 2 begins while a runs the workers of round 1"));
}

TEST_F(MixedInvariants, ARoundOfOthersHasItsOwnNumber) {
  invariants_.others_sealed(2, {}, {});
  invariants_.others_sealed(2, {}, {});
  EXPECT_THAT(violation(), HasSubstr("round 2 was sealed after round 2"));
}

TEST_F(MixedInvariants, WhatIsToldIsWhatIsShown) {
  state_.complete = true;
  state_.participants = {{id_of("a"), 1}, {id_of("t"), 0}};
  const core::coordinator::Sealed told{.rank = 1, .world_size = 2, .by_session = false};
  invariants_.told(0, id_of("a"), told, {});
  invariants_.said_all({}, state_, {});
  EXPECT_EQ(violation(), "none");

  state_.round = 1;
  state_.participants[id_of("a")] = 0;
  invariants_.told(
      0, id_of("a"),
      core::coordinator::Sealed{.round = 1, .rank = 1, .world_size = 2, .by_session = false}, {});
  invariants_.said_all({}, state_, {});
  EXPECT_THAT(violation(), HasSubstr("which is not in the state of round 1"));
}

}  // namespace
}  // namespace regroup::sim
