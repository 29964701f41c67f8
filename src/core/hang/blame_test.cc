#include "core/hang/blame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/hang/council.h"

namespace regroup::core::hang {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<RankAt> eight() {
  std::vector<RankAt> ranks;
  for (int rank = 0; rank < 8; ++rank)
    ranks.push_back({rank, rank == 3 ? Whereabouts{"in read() under DataLoader", false}
                                     : Whereabouts{"in all_reduce", true}});
  return ranks;
}

TEST(Blame, SumsUpWhereTheRanksAre) {
  EXPECT_EQ(where_they_are(eight()),
            "ranks 0-2, 4-7 wait in all_reduce; rank 3 is in read() under DataLoader");
  EXPECT_THAT(odd_ones(eight()), ElementsAre(3));
}

TEST(Blame, BlamesWhoWaitsForNobodyEvenIfTheyAreTheMost) {
  EXPECT_THAT(
      odd_ones({{0, {"in barrier", true}}, {1, {"in sleep", false}}, {2, {"in sleep", false}}}),
      ElementsAre(1, 2));
}

TEST(Blame, BlamesTheSmallestLotIfAllWait) {
  EXPECT_THAT(
      odd_ones(
          {{0, {"in barrier", true}}, {1, {"in all_reduce", true}}, {2, {"in all_reduce", true}}}),
      ElementsAre(0));
}

TEST(Blame, BlamesNobodyIfAllAreInOnePlaceOrAllInDifferentOnes) {
  EXPECT_THAT(odd_ones({{0, {"in barrier", true}}, {1, {"in barrier", true}}}), IsEmpty());
  EXPECT_THAT(odd_ones({{0, {"in read()", false}}, {1, {"in futex()", false}}}), IsEmpty());
  EXPECT_THAT(odd_ones({}), IsEmpty());
}

TEST(Blame, IsTheFirstOddOneInWhateverOrder) {
  std::vector<RankAt> ranks = eight();
  const Blame expected{.rank = 3, .summary = where_they_are(eight())};
  EXPECT_EQ(blame(ranks), expected);
  std::reverse(ranks.begin(), ranks.end());
  EXPECT_EQ(blame(ranks), expected);
}

TEST(Blame, IsTheFirstRankIfNoneIsOdd) {
  EXPECT_EQ(blame({{5, {"in barrier", true}}, {2, {"in barrier", true}}}).rank, 2);
  EXPECT_EQ(blame({}).rank, std::nullopt);
}

TEST(Council, HangsOnceAllNodesSayThatTheyAreStalled) {
  Council council(3);
  EXPECT_EQ(council.on_stalled(0, Votes{.suspects = 2}), std::nullopt);
  EXPECT_EQ(council.on_stalled(1, Votes{.suspects = 2}), std::nullopt);
  EXPECT_EQ(council.on_stalled(1, Votes{.suspects = 2}), std::nullopt);  // The same node again.
  EXPECT_EQ(council.on_stalled(2, Votes{.suspects = 1}), true);
  EXPECT_EQ(council.on_stalled(2, Votes{.suspects = 1}), std::nullopt);  // Nothing new.
  EXPECT_EQ(council.on_stalled(0, std::nullopt), false);
  EXPECT_EQ(council.on_stalled(0, Votes{.suspects = 2}), true);
}

TEST(Council, ManyThatWaitForOneThatComputesAreNoHang) {
  Council council(2);
  council.on_stalled(0, Votes{.suspects = 7});
  EXPECT_EQ(council.on_stalled(1, Votes{.spinning = 1}), std::nullopt);
  EXPECT_EQ(council.on_stalled(1, Votes{.spinning = 8}), true);
}

TEST(Council, BlamesOnceAllHaveSaidWhereTheyAre) {
  Council council(2);
  const RankAt waits{.rank = 0, .at = {"in all_reduce", true}};
  const RankAt reads{.rank = 1, .at = {"in read()", false}};
  EXPECT_EQ(council.on_where(0, {waits}), std::nullopt);  // Ignored, because nothing hangs.
  council.on_stalled(0, Votes{.suspects = 1});
  council.on_stalled(1, Votes{.suspects = 1});
  EXPECT_EQ(council.on_where(0, {waits}), std::nullopt);
  EXPECT_EQ(council.on_where(1, {reads}), blame({waits, reads}));
  EXPECT_EQ(council.on_where(1, {reads}), std::nullopt);
}

TEST(Council, ForgetsWhereTheyWereWhenSomebodyGetsSomewhere) {
  Council council(2);
  council.on_stalled(0, Votes{.suspects = 1});
  council.on_stalled(1, Votes{.suspects = 1});
  council.on_where(0, {});
  council.on_stalled(0, std::nullopt);
  council.on_stalled(0, Votes{.suspects = 1});
  EXPECT_EQ(council.on_where(1, {}), std::nullopt);
  EXPECT_EQ(council.on_where(0, {}), Blame{});
}

TEST(Council, DoesNotHearWhoIsNotInTheRound) {
  Council council(1);
  EXPECT_EQ(council.on_stalled(-1, Votes{.suspects = 1}), std::nullopt);
  EXPECT_EQ(council.on_stalled(1, Votes{.suspects = 1}), std::nullopt);
}

}  // namespace
}  // namespace regroup::core::hang
