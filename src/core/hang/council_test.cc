// Nodes whose workers have ended. blame_test.cc has the rest of the council.
#include "core/hang/council.h"

#include <gtest/gtest.h>

namespace regroup::core::hang {
namespace {

constexpr Votes kOneSuspect{.suspects = 1};

// What the last of so many looks in a row leads to.
std::optional<bool> keep_stalling(Council& council, std::int64_t node, int looks) {
  std::optional<bool> last;
  for (int look = 0; look < looks; ++look) last = council.on_stalled(node, kOneSuspect);
  return last;
}

TEST(CouncilEnds, ANodeWhoseWorkersHaveEndedIsNotWaitedFor) {
  Council council(3);
  EXPECT_EQ(council.on_ended(2), std::nullopt);
  EXPECT_EQ(keep_stalling(council, 0, kLooksAfterAnEnd), std::nullopt);
  EXPECT_EQ(keep_stalling(council, 1, kLooksAfterAnEnd), true);
  EXPECT_EQ(council.on_where(0, {}), std::nullopt);
  EXPECT_EQ(council.on_where(1, {}), Blame{});
}

TEST(CouncilEnds, AnEndIsProgressSoStallsHaveToLast) {
  Council council(3);
  for (std::int64_t node = 0; node < 3; ++node) council.on_stalled(node, kOneSuspect);
  ASSERT_TRUE(council.hangs());
  EXPECT_EQ(council.on_ended(2), false);
  EXPECT_EQ(keep_stalling(council, 0, kLooksAfterAnEnd), std::nullopt);
  EXPECT_EQ(keep_stalling(council, 1, kLooksAfterAnEnd - 1), std::nullopt);
  EXPECT_EQ(keep_stalling(council, 1, 1), true);
  EXPECT_EQ(council.on_ended(2), std::nullopt) << "It has ended once.";
  EXPECT_TRUE(council.hangs());
}

TEST(CouncilEnds, AStallThatBeganAfterTheEndCountsAtOnce) {
  Council council(2);
  council.on_ended(1);
  EXPECT_EQ(council.on_stalled(0, std::nullopt), std::nullopt);
  EXPECT_EQ(council.on_stalled(0, kOneSuspect), true);
}

TEST(CouncilEnds, ANodeThatHasEndedIsNotHeard) {
  Council council(2);
  council.on_ended(1);
  EXPECT_EQ(keep_stalling(council, 1, kLooksAfterAnEnd), std::nullopt);
  EXPECT_EQ(keep_stalling(council, 0, kLooksAfterAnEnd), true);
}

TEST(CouncilEnds, NodesThatNeverCameAreNotWaitedFor) {
  Council council(3);
  council.on_stalled(0, kOneSuspect);
  EXPECT_EQ(council.on_missing(2), std::nullopt);
  EXPECT_EQ(keep_stalling(council, 0, kLooksAfterAnEnd - 1), std::nullopt);
  EXPECT_EQ(keep_stalling(council, 0, 1), true);
}

TEST(CouncilEnds, NothingHangsOnceAllHaveEnded) {
  Council council(2);
  EXPECT_EQ(council.on_ended(0), std::nullopt);
  EXPECT_EQ(council.on_ended(1), std::nullopt);
  EXPECT_FALSE(council.hangs());
}

TEST(CouncilEnds, OfANodeThatIsNotInTheRoundMeanNothing) {
  Council council(1);
  EXPECT_EQ(council.on_ended(1), std::nullopt);
  EXPECT_EQ(council.on_ended(-1), std::nullopt);
  EXPECT_EQ(council.on_stalled(0, kOneSuspect), true);
}

}  // namespace
}  // namespace regroup::core::hang
