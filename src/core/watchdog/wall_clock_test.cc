#include "core/watchdog/wall_clock.h"

#include <gtest/gtest.h>

#include <limits>

namespace regroup::core::watchdog {
namespace {

constexpr Duration kToday = 1'800'000'000s;

Instant at(Duration since) { return Instant{since}; }
double wall(Duration since_1970) { return static_cast<double>(since_1970.count()) / 1e9; }

TEST(WallClock, TranslatesAWallTimeIntoAnInstant) {
  WallClock clock;
  clock.look(at(100s), kToday);
  EXPECT_EQ(clock.translate(wall(kToday + 30s), at(100s)), at(130s));
  EXPECT_EQ(clock.translate(wall(kToday - 30s), at(100s)), at(70s));
  EXPECT_EQ(clock.translate(0, at(100s)), at(100s - kToday));
}

TEST(WallClock, AStepBetweenTwoRequestsChangesNeitherOfThem) {
  for (const Duration step : {3600s, -3600s}) {
    WallClock clock;
    clock.look(at(100s), kToday);
    const Instant first = clock.translate(wall(kToday + 30s), at(100s));
    clock.look(at(110s), kToday + 10s + step);
    const Instant second = clock.translate(wall(kToday + 10s + step + 30s), at(110s));
    EXPECT_EQ(first, at(130s));
    EXPECT_EQ(second, at(140s));
  }
}

TEST(WallClock, ARequestThatWasWrittenJustBeforeAStepKeepsItsTime) {
  for (const Duration step : {3600s, -3600s}) {
    WallClock clock;
    clock.look(at(100s), kToday);
    clock.look(at(110s), kToday + 10s + step);
    EXPECT_EQ(clock.translate(wall(kToday + 10s + 30s), at(110s)), at(140s));
  }
}

TEST(WallClock, NobodyIsEarlyForAStepThatIsSmallOrHalfTheTimerAtMost) {
  struct Case {
    Duration step, timer;
  };
  for (const Case& one : {Case{5s, 30s}, Case{5s, 8s}, Case{59s, 10s}, Case{600s, 1200s}})
    for (const Duration step : {one.step, -one.step}) {
      WallClock clock;
      clock.look(at(100s), kToday);
      // Long after the step, which the translator has not noticed until now.
      clock.look(at(200s), kToday + 100s + step);
      const Instant after = clock.translate(wall(kToday + 100s + step + one.timer), at(200s));
      EXPECT_GE(after, at(200s + one.timer)) << step.count();
      EXPECT_LE(after, at(200s + one.timer + one.step)) << step.count();
      // Just before the step.
      const Instant before = clock.translate(wall(kToday + 100s + one.timer), at(200s));
      EXPECT_GE(before, at(200s + one.timer)) << step.count();
      EXPECT_LE(before, at(200s + one.timer + one.step)) << step.count();
    }
}

TEST(WallClock, ThereIsDoubtOnlyForAMomentAfterAStep) {
  WallClock clock;
  clock.look(at(100s), kToday);
  clock.look(at(110s), kToday + 10s - 3600s);
  clock.look(at(120s), kToday + 20s - 3600s);
  EXPECT_EQ(clock.translate(wall(kToday + 20s - 3600s + 7200s), at(120s)), at(7320s));
}

TEST(WallClock, AClockThatIsSteeredIsNotSet) {
  WallClock clock;
  clock.look(at(100s), kToday);
  clock.look(at(86'500s), kToday + 86'400s - 40s);
  EXPECT_EQ(clock.translate(wall(kToday + 86'400s - 40s + 60s), at(86'500s)), at(86'560s));
}

TEST(WallClock, WhatIsBeyondTheClockNeverComes) {
  WallClock clock;
  clock.look(at(100s), kToday);
  for (const double far : {1e10, 1e300, std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(clock.translate(far, at(100s)), at(Duration::max())) << far;
}

}  // namespace
}  // namespace regroup::core::watchdog
