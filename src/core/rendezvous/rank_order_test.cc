#include "core/rendezvous/rank_order.h"

#include <gtest/gtest.h>

#include "core/rendezvous/rendezvous_testing.h"

namespace regroup::core::rendezvous {
namespace {

State with(const std::vector<std::pair<std::string, Claim>>& members) {
  State state;
  for (const auto& [name, said] : members) {
    state.participants[node(name)] = 0;
    state.claims[node(name)] = said;
  }
  return state;
}

std::string order(const State& state) {
  std::string names;
  for (const NodeId& id : rank_order(state)) names += (names.empty() ? "" : " ") + id.address;
  return names;
}

Claim wishing(const std::string& name, std::int64_t rank) {
  return {.name = name, .wish = rank, .held = {}};
}

Claim having_held(const std::string& name, std::int64_t rank, std::int64_t world,
                  std::int64_t round = 4) {
  return {.name = name, .wish = {}, .held = HeldRank{round, rank, world}};
}

TEST(RankOrder, NamesAreInNaturalOrder) {
  EXPECT_EQ(order(with({{"n10", claim("n10")},
                        {"n1", claim("n1")},
                        {"n66", claim("n66")},
                        {"n2", claim("n2")},
                        {"n7", claim("n7")}})),
            "n1 n2 n7 n10 n66");
}

TEST(RankOrder, NaturalOrderIsAnOrder) {
  const std::vector<std::string> sorted = {"",    "10.0.0.2", "10.0.0.10", "a",  "a1",
                                           "a01", "a1b2",     "a1b10",     "a2", "a10",
                                           "b",   "n9-x1",    "n9-x2"};
  for (const std::string& a : sorted)
    for (const std::string& b : sorted) {
      EXPECT_FALSE(natural_less(a, b) && natural_less(b, a)) << a << " " << b;
      EXPECT_EQ(natural_less(a, b) || natural_less(b, a), a != b) << a << " " << b;
    }
  EXPECT_TRUE(natural_less("n2", "n10"));
  EXPECT_TRUE(natural_less("10.0.0.2", "10.0.0.10"));
  EXPECT_TRUE(natural_less("n1", "n1a"));
  EXPECT_TRUE(natural_less("n99999999999999999999", "n100000000000000000000"));
}

TEST(RankOrder, AWishThatFitsIsGranted) {
  EXPECT_EQ(order(with({{"a", wishing("a", 2)}, {"b", wishing("b", 0)}, {"c", wishing("c", 1)}})),
            "b c a");
  EXPECT_EQ(order(with({{"a", claim("a")}, {"b", wishing("b", 0)}, {"c", claim("c")}})), "b a c");
  // Two nodes want the same rank: the first by name gets it. One wants a rank that is too high: it
  // gets what is left, in the order of wishes.
  EXPECT_EQ(order(with({{"a", wishing("a", 1)}, {"b", wishing("b", 1)}})), "b a");
  EXPECT_EQ(order(with({{"a", wishing("a", 7)}, {"b", wishing("b", 5)}, {"c", wishing("c", 0)}})),
            "c b a");
}

TEST(RankOrder, SurvivorsKeepTheirRanksInAWorldOfTheSameSize) {
  // n2 died, n99 takes its place.
  EXPECT_EQ(order(with({{"n1", having_held("n1", 0, 4)},
                        {"n7", having_held("n7", 2, 4)},
                        {"n10", having_held("n10", 3, 4)},
                        {"n99", claim("n99")}})),
            "n1 n99 n7 n10");
  // In a smaller world everything is in order again.
  EXPECT_EQ(order(with({{"n7", having_held("n7", 0, 4)}, {"n1", having_held("n1", 3, 4)}})),
            "n1 n7");
  // A node that held a rank in a round before the last one holds none.
  EXPECT_EQ(order(with({{"n1", having_held("n1", 1, 2, 3)}, {"n2", having_held("n2", 1, 2, 4)}})),
            "n1 n2");
  // A wish comes before an old rank.
  EXPECT_EQ(order(with({{"a", having_held("a", 0, 2)}, {"b", wishing("b", 0)}})), "b a");
}

Claim in(const std::string& group, Claim claim) {
  claim.group = group;
  return claim;
}

std::string order_of_pairs(const State& state) {
  std::string names;
  for (const NodeId& id : rank_order(state, 2)) names += (names.empty() ? "" : " ") + id.address;
  return names;
}

TEST(RankOrder, RanksOfASegmentAreOfOneGroup) {
  EXPECT_EQ(order_of_pairs(with({{"n1", in("r10", claim("n1"))},
                                 {"n2", in("r9", claim("n2"))},
                                 {"n3", in("r10", claim("n3"))},
                                 {"n4", in("r9", claim("n4"))}})),
            "n2 n4 n1 n3");
  // A group may have several segments.
  EXPECT_EQ(order_of_pairs(with({{"n5", in("b", claim("n5"))},
                                 {"n1", in("b", claim("n1"))},
                                 {"n2", in("a", claim("n2"))},
                                 {"n3", in("a", claim("n3"))},
                                 {"n4", in("b", claim("n4"))},
                                 {"n6", in("b", claim("n6"))}})),
            "n2 n3 n1 n4 n5 n6");
  // Without segments a group is what comes first in the order of names.
  EXPECT_EQ(order(with({{"n1", in("b", claim("n1"))},
                        {"n2", in("a", claim("n2"))},
                        {"n3", in("b", claim("n3"))}})),
            "n2 n1 n3");
}

TEST(RankOrder, AWishDecidesOverAWholeSegment) {
  EXPECT_EQ(order_of_pairs(with({{"n1", in("a", claim("n1"))},
                                 {"n2", in("a", claim("n2"))},
                                 {"n3", in("b", wishing("n3", 1))},
                                 {"n4", in("b", claim("n4"))}})),
            "n4 n3 n1 n2");
  // A segment that another group has by a wish is taken.
  EXPECT_EQ(order_of_pairs(with({{"n1", in("a", wishing("n1", 1))},
                                 {"n2", in("a", claim("n2"))},
                                 {"n3", in("b", wishing("n3", 0))},
                                 {"n4", in("b", claim("n4"))}})),
            "n3 n4 n1 n2");
}

TEST(RankOrder, AReplacementTakesAHoleInItsGroup) {
  // n1 of a and n4 of b were lost. By the order of names alone n8 would get the first hole.
  EXPECT_EQ(order_of_pairs(with({{"n2", in("b", having_held("n2", 1, 4))},
                                 {"n3", in("a", having_held("n3", 2, 4))},
                                 {"n8", in("a", claim("n8"))},
                                 {"n9", in("b", claim("n9"))}})),
            "n9 n2 n3 n8");
  // A whole group was lost, and another one comes.
  EXPECT_EQ(order_of_pairs(with({{"n1", in("z", having_held("n1", 2, 4))},
                                 {"n2", in("z", having_held("n2", 3, 4))},
                                 {"n8", in("zz", claim("n8"))},
                                 {"n9", in("zz", claim("n9"))}})),
            "n8 n9 n1 n2");
  // The halves of two segments of one group make one, and the other block is free.
  EXPECT_EQ(order_of_pairs(with({{"n1", in("a", having_held("n1", 0, 4))},
                                 {"n3", in("a", having_held("n3", 3, 4))},
                                 {"n8", in("b", claim("n8"))},
                                 {"n9", in("b", claim("n9"))}})),
            "n1 n3 n8 n9");
}

TEST(RankOrder, WithATorchrunNodeItIsTorchrunsOrder) {
  State state = with({{"n10", wishing("n10", 1)}, {"n2", wishing("n2", 0)}});
  state.participants[node("n1")] = 0;
  EXPECT_EQ(order(state), "n1 n10 n2");
}

TEST(RankOrder, ManyNodesOfOneName) {
  State state;
  for (std::int64_t i = 0; i < 20; ++i) {
    const NodeId id{.address = "host", .pid = 7, .local_id = i};
    state.participants[id] = 0;
    state.claims[id] = claim("host");
  }
  const auto ranks = rank_order(state);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    EXPECT_EQ(ranks[i].local_id, static_cast<std::int64_t>(i));
}

}  // namespace
}  // namespace regroup::core::rendezvous
