#include "core/watchdog/beats.h"

#include <gtest/gtest.h>

namespace regroup::core::watchdog {
namespace {

Instant at(Duration since) { return Instant{since}; }

TEST(Beats, WhoIsSilentForLongerThanHisLimitIsNamed) {
  const std::vector<Beat> beats = {{at(100s), 30s}, {at(110s), 30s}, {at(0s), 0s}};
  auto verdict = judge(beats, at(130s));  // Exactly at the limit.
  EXPECT_TRUE(verdict.silent.empty());
  EXPECT_EQ(verdict.next_deadline, at(130s));
  verdict = judge(beats, at(130s + 1ns));
  ASSERT_EQ(verdict.silent.size(), 1u);
  EXPECT_EQ(verdict.silent[0].worker, 0u);
  EXPECT_EQ(verdict.silent[0].limit, 30s);
  EXPECT_EQ(verdict.next_deadline, at(140s));
}

TEST(Beats, WhoHasNoLimitIsNotWatched) {
  const auto verdict = judge({{at(0s), 0s}, {at(0s), -5s}, {at(0s), Duration::max()}}, at(900s));
  EXPECT_TRUE(verdict.silent.empty());
  EXPECT_FALSE(verdict.next_deadline);
}

TEST(Beats, ABeatOfTheFutureCountsAsOneOfNow) {
  const auto verdict = judge({{at(Duration::max()), 30s}}, at(100s));
  EXPECT_TRUE(verdict.silent.empty());
  EXPECT_EQ(verdict.next_deadline, at(130s));
}

TEST(Beats, RubbishIsABeatOfLongAgo) {
  const auto verdict = judge({{at(Duration::min()), 30s}}, at(100s));
  ASSERT_EQ(verdict.silent.size(), 1u);
  EXPECT_EQ(verdict.silent[0].silent_for, 100s);
}

}  // namespace
}  // namespace regroup::core::watchdog
