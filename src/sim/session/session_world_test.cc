#include "sim/session/session_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace regroup::sim {
namespace {

using testing::HasSubstr;

Options chosen(Options options) {
  options.coordinator = true;
  return options;
}

std::vector<std::string> trace_of(const Options& options) {
  std::vector<std::string> lines;
  (void)SessionWorld(options, Trace([&](std::string_view line) { lines.emplace_back(line); }))
      .run();
  return lines;
}

void expect_good(const Options& options) {
  const Report report = SessionWorld(chosen(options)).run();
  EXPECT_FALSE(report.violation) << *report.violation << "\n" << replay_line(chosen(options));
}

TEST(SessionWorld, KeepsItsInvariantsInAFewHundredRuns) {
  for (std::uint64_t seed = 1'000'000; seed < 1'000'300; ++seed) expect_good({.seed = seed});
}

TEST(SessionWorld, MeetsInGoodWeatherToo) {
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    expect_good({.seed = seed, .faults = FaultLevel::None});
}

TEST(SessionWorld, KeepsGroupsWhole) {
  for (std::uint64_t seed = 0; seed < 100; ++seed)
    expect_good({.seed = seed, .nodes = 9, .segment = 3});
}

TEST(SessionWorld, MovesTwentyNodes) {
  for (std::uint64_t seed = 0; seed < 5; ++seed)
    expect_good({.seed = seed, .nodes = 20, .faults = FaultLevel::Heavy});
}

TEST(SessionWorld, TwoRunsOfOneSeedLeaveTheSameTrace) {
  for (std::uint64_t seed = 20; seed < 30; ++seed) {
    const auto trace = trace_of({.seed = seed});
    EXPECT_GT(trace.size(), 20u);
    EXPECT_EQ(trace, trace_of({.seed = seed}));
  }
}

TEST(SessionWorld, TheTraceChangesNothing) {
  const Report quiet = SessionWorld({.seed = 31}).run();
  const Report told = SessionWorld({.seed = 31}, Trace([](std::string_view) {})).run();
  EXPECT_EQ(quiet.totals.steps, told.totals.steps);
  EXPECT_EQ(quiet.totals.virtual_time, told.totals.virtual_time);
}

TEST(SessionWorld, TheFaultsReallyHappen) {
  Totals totals;
  for (std::uint64_t seed = 0; seed < 60; ++seed)
    totals.add(SessionWorld({.seed = seed, .faults = FaultLevel::Heavy}).run().totals);
  for (const std::int64_t count :
       {totals.seals, totals.crashes, totals.pauses, totals.partitions, totals.leaves})
    EXPECT_GT(count, 20);
}

// --- seeds that have found a mistake (when all nodes had a session) ---------------------------

// The first to come to a coordinator that was started again had left the last round, and rounds
// were counted from 0 again; members that still ran were told to stop, or that they may not.
TEST(SessionWorld, Seed2ACoordinatorStartedAgainCountsOn) {
  expect_good({.seed = 2, .torchrun_nodes = 0, .segment = 0});
}
TEST(SessionWorld, Seed22MembersThatComeAfterAJoinRunOn) {
  expect_good({.seed = 22, .torchrun_nodes = 0, .segment = 0});
}

// The restarts that were told in a stop were forgotten with the coordinator.
TEST(SessionWorld, Seed24RestartsAreNotForgotten) {
  expect_good({.seed = 24, .torchrun_nodes = 0, .segment = 0});
}

// A member whose workers were being stopped lost its connection for a moment: the next round began
// without it, and beside its workers.
TEST(SessionWorld, Seed51WhoIsStoppingMayComeBackToo) {
  expect_good({.seed = 51, .torchrun_nodes = 0, .segment = 0});
}

// The coordinator was started again, and let a spare in before the members had come back.
TEST(SessionWorld, Seed26MembersHaveTimeToComeBack) {
  expect_good({.seed = 26, .torchrun_nodes = 0, .segment = 0});
}

// A seal was lost with its connection, and so was the stop of that round. Only the seal was said
// again: the node ran on, and the others waited for it for ever.
TEST(SessionWorld, Seed2838AStopIsSaidAgainWithItsSeal) {
  expect_good({.seed = 2838, .torchrun_nodes = 0, .segment = 0});
}

// A node lost its connection before it heard that it was a spare, and was not told again.
TEST(SessionWorld, Seed301298ASpareHearsAgainThatItIsOne) {
  expect_good({.seed = 301298,
               .nodes = 12,
               .faults = FaultLevel::Heavy,
               .torchrun_nodes = 0,
               .segment = 0});
}

// A mistake of the simulator: a run was closed before the node came that knew of a restart, and
// that node was told of the end as the others were.
TEST(SessionWorld, Seed108890TheEndNeedNotKnowOfAllRestarts) {
  expect_good({.seed = 108890, .torchrun_nodes = 0, .segment = 0});
}

// One node ran on in a round that the others had left before the coordinator was started again, and
// these others made no whole group.
TEST(SessionWorld, Seed2848ARoundThatOthersHaveLeftIsStopped) { expect_good({.seed = 2848}); }

// --- worlds that are wrong on purpose ---------------------------------------------------------

// The first violation among some seeds.
std::string first_violation(Broken broken) {
  for (std::uint64_t seed = 0; seed < 300; ++seed)
    if (const auto violation =
            SessionWorld({.seed = seed, .torchrun_nodes = 0, .segment = 0, .broken = broken})
                .run()
                .violation)
      return *violation;
  return "none";
}

TEST(BrokenSessionWorld, ANodeThatIsNotToldToStopIsNoticed) {
  EXPECT_NE(first_violation(Broken::ForgetsAStop), "none");
}

TEST(BrokenSessionWorld, WhoIsLostAfterOnePingWasWell) {
  EXPECT_THAT(first_violation(Broken::HastySilence), HasSubstr("all had been well with it"));
}

TEST(BrokenSessionWorld, WorkersThatAreKeptOverAStopAreNoticed) {
  EXPECT_THAT(first_violation(Broken::KeepsWorkers), HasSubstr("runs the workers of round"));
}

TEST(BrokenSessionWorld, AVerdictThatIsNotTheSameEverywhereIsNoticed) {
  EXPECT_THAT(first_violation(Broken::TwoVerdicts), HasSubstr("verdict"));
}

TEST(BrokenSessionWorld, RestartsWithoutALimitAreNoticed) {
  EXPECT_THAT(first_violation(Broken::EndlessRestarts), HasSubstr("restart 1 of 0"));
}

TEST(BrokenSessionWorld, GroupsThatAreMixedAreNoticed) {
  std::string violation = "none";
  for (std::uint64_t seed = 0; seed < 20 && violation == "none"; ++seed)
    violation =
        SessionWorld({.seed = seed, .nodes = 9, .segment = 3, .broken = Broken::MixesGroups})
            .run()
            .violation.value_or("none");
  EXPECT_THAT(violation, HasSubstr("among nodes of another group"));
}

TEST(BrokenSessionWorld, ARoundBelowTheMinimumIsNoticed) {
  EXPECT_THAT(first_violation(Broken::SmallMinimum), HasSubstr("outside"));
}

}  // namespace
}  // namespace regroup::sim
