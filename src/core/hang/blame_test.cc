#include "core/hang/blame.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/hang/council.h"

namespace regroup::core::hang {
namespace {

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
}

TEST(Blame, NamesTheOneThatIsInNoCollective) {
  std::vector<RankAt> ranks = eight();
  const Blame expected{.rank = 3, .summary = where_they_are(eight())};
  EXPECT_EQ(blame(ranks), expected);
  std::reverse(ranks.begin(), ranks.end());
  EXPECT_EQ(blame(ranks), expected);
}

TEST(Blame, NamesTheFirstThatCertainlyWaitsForNobodyEvenIfTheyAreTheMost) {
  const Whereabouts sleeps{"in sleep()", false, Alone::Certain};
  EXPECT_EQ(blame({{2, sleeps}, {1, sleeps}, {0, {"in barrier", true}}}).rank, 1);
  // From outside alone: the others may wait for anybody, this one does not.
  EXPECT_EQ(blame({{0, {"in futex()"}}, {1, sleeps}}).rank, 1);
  EXPECT_EQ(blame({{0, {"in futex()"}}, {1, sleeps}, {2, {"in poll()"}}}).rank, 1);
}

TEST(Blame, NamesNobodyIfAllWaitForNobody) {
  const Whereabouts sleeps{"in sleep()", false, Alone::Certain};
  EXPECT_EQ(blame({{0, sleeps}, {1, sleeps}}).rank, std::nullopt);
}

// Rank 0 was blamed, while rank 1 slept: each of them is where the other is not.
TEST(Blame, NamesNobodyByTheirSystemCallsAlone) {
  EXPECT_EQ(blame({{0, {"in futex()"}}, {1, {"in sleep()"}}}).rank, std::nullopt);
  EXPECT_EQ(blame({{0, {"in futex()"}}, {1, {"in poll()"}}, {2, {"in poll()"}}}).rank, std::nullopt)
      << "rank 0 may wait for the others in another way than they for it";
  EXPECT_EQ(blame({{0, {"in poll()"}}, {1, {"in sleep()", false, Alone::IfStill}}}).rank,
            std::nullopt);
}

TEST(Blame, NamesTheOneInAnotherPlaceThanAllOthers) {
  EXPECT_EQ(
      blame({{0, {"in barrier", true}}, {1, {"in all_reduce", true}}, {2, {"in all_reduce", true}}})
          .rank,
      0);
  EXPECT_EQ(blame({{0, {"running at train.py:5 (step)"}},
                   {1, {"in ioctl() at train.py:5 (step)"}},
                   {2, {"in futex() at train.py:9 (save)"}}})
                .rank,
            2);
}

TEST(Blame, NamesNobodyIfTheOthersDoNotAgree) {
  const Whereabouts barrier{"in barrier", true};
  const Whereabouts reduce{"in all_reduce", true};
  EXPECT_EQ(blame({{0, barrier}, {1, barrier}}).rank, std::nullopt);
  EXPECT_EQ(blame({{0, barrier}, {1, reduce}}).rank, std::nullopt);
  EXPECT_EQ(blame({{0, barrier}, {1, reduce}, {2, barrier}, {3, reduce}}).rank, std::nullopt);
  EXPECT_EQ(blame({{0, barrier}, {1, reduce}, {2, {"in gather", true}}}).rank, std::nullopt);
  EXPECT_EQ(blame({{0, {"in a() at a.py:1 (a)"}}, {1, reduce}, {2, {"in futex()"}}}).rank,
            std::nullopt);
}

TEST(Blame, NamesTheOneThatIsQuietWhileAllOthersSpin) {
  const Whereabouts spins{"running", false, Alone::Unknown, true};
  EXPECT_EQ(blame({{0, spins}, {1, {"in futex()"}}, {2, spins}}).rank, 1);
  EXPECT_EQ(blame({{0, spins}, {1, {"in futex()"}}}).rank, std::nullopt) << "it may compute";
}

TEST(Blame, NamesTheOnlyRankThereIs) {
  EXPECT_EQ(blame({{5, {"in futex()"}}}).rank, 5);
  EXPECT_EQ(blame({}), Blame{});
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
  EXPECT_TRUE(council.named());
  council.on_stalled(0, std::nullopt);
  EXPECT_FALSE(council.named());
}

TEST(Council, NamesNobodyWhereNobodyCanBeTold) {
  Council council(2);
  council.on_stalled(0, Votes{.suspects = 1});
  council.on_stalled(1, Votes{.suspects = 1});
  council.on_where(0, {{.rank = 0, .at = {"in futex()"}}});
  EXPECT_TRUE(council.on_where(1, {{.rank = 1, .at = {"in poll()"}}}));
  EXPECT_FALSE(council.named());
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
