#include "sim/node/nodes_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace regroup::sim {
namespace {

using testing::HasSubstr;

Options chosen(Options options) {
  options.whole_nodes = true;
  return options;
}

std::vector<std::string> trace_of(const Options& options) {
  std::vector<std::string> lines;
  (void)NodesWorld(chosen(options), Trace([&](std::string_view line) { lines.emplace_back(line); }))
      .run();
  return lines;
}

void expect_good(const Options& options) {
  const Report report = NodesWorld(chosen(options)).run();
  EXPECT_FALSE(report.violation) << *report.violation << "\n" << replay_line(chosen(options));
}

TEST(NodesWorld, KeepsItsInvariantsInAFewHundredRuns) {
  for (std::uint64_t seed = 1'000'000; seed < 1'000'300; ++seed) expect_good({.seed = seed});
}

// Members that come back to a coordinator one by one are not the whole round.
TEST(NodesWorld, AHangAfterARestartOfTheCoordinatorIsOneOfAll) { expect_good({.seed = 14796}); }

// A coordinator that was started again hears of a failure that was counted before its time.
TEST(NodesWorld, OneFailureCostsOneRestartOverTwoLivesOfTheCoordinator) {
  expect_good({.seed = 384});
}

TEST(NodesWorld, EndsInGoodWeatherToo) {
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    expect_good({.seed = seed, .faults = FaultLevel::None});
}

TEST(NodesWorld, KeepsGroupsWhole) {
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    expect_good({.seed = seed, .nodes = 9, .segment = 3});
}

TEST(NodesWorld, MovesTwentyNodes) {
  for (std::uint64_t seed = 0; seed < 5; ++seed)
    expect_good({.seed = seed, .nodes = 20, .faults = FaultLevel::Heavy});
}

TEST(NodesWorld, TwoRunsOfOneSeedLeaveTheSameTrace) {
  for (std::uint64_t seed = 20; seed < 30; ++seed) {
    const auto trace = trace_of({.seed = seed});
    EXPECT_GT(trace.size(), 20u);
    EXPECT_EQ(trace, trace_of({.seed = seed}));
  }
}

TEST(NodesWorld, TheTraceChangesNothing) {
  const Report quiet = NodesWorld(chosen({.seed = 31})).run();
  const Report told = NodesWorld(chosen({.seed = 31}), Trace([](std::string_view) {})).run();
  EXPECT_EQ(quiet.totals.steps, told.totals.steps);
  EXPECT_EQ(quiet.totals.virtual_time, told.totals.virtual_time);
}

// Each exit code that docs/cli.md promises, and what leads to it.
TEST(NodesWorld, AllThatCanHappenDoes) {
  std::string all;
  for (std::uint64_t seed = 0; seed < 200; ++seed)
    for (const std::string& line : trace_of({.seed = seed, .faults = FaultLevel::Heavy}))
      all += line + "\n";
  for (const char* words :
       {"ends with 0\n", "ends with 1\n", "ends with 3\n", "ends with 70\n", "ends with 71\n",
        "ends with 72\n", "ends with 73: ", "ends with 130\n", "ends with 143\n", ", which hangs",
        "a worker cannot be killed", "all have met; now the work is done", "this node was a spare",
        "and is not let in again", "--exit-barrier-timeout", "the coordinator is gone"})
    EXPECT_THAT(all, HasSubstr(words));
}

// --- worlds that are wrong on purpose ---------------------------------------------------------

// The first violation among some seeds.
std::string first_violation(Broken broken) {
  for (std::uint64_t seed = 0; seed < 300; ++seed)
    if (const auto violation =
            NodesWorld(chosen({.seed = seed, .segment = 0, .broken = broken})).run().violation)
      return *violation;
  return "none";
}

TEST(BrokenNodesWorld, WorkersThatAreKeptOverAStopAreNoticed) {
  EXPECT_THAT(first_violation(Broken::KeepsWorkers), HasSubstr("workers of"));
}

TEST(BrokenNodesWorld, ANodeThatIsNotToldToStopIsNoticed) {
  EXPECT_NE(first_violation(Broken::ForgetsAStop), "none");
}

TEST(BrokenNodesWorld, AVerdictThatIsNotTheSameEverywhereIsNoticed) {
  EXPECT_THAT(first_violation(Broken::TwoVerdicts), HasSubstr("verdict"));
}

TEST(BrokenNodesWorld, RestartsWithoutALimitAreNoticed) {
  EXPECT_THAT(first_violation(Broken::EndlessRestarts), HasSubstr("restart"));
}

}  // namespace
}  // namespace regroup::sim
