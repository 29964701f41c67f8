#include "core/coordinator/restoring.h"

#include <gtest/gtest.h>

#include "core/rendezvous/rendezvous_testing.h"

namespace regroup::core::coordinator {
namespace {

using rendezvous::at;
using rendezvous::HeldRank;
using rendezvous::node;
using Returned = Restoring::Returned;

HeldRank place(std::int64_t round, std::int64_t rank, std::int64_t world_size = 2) {
  return {.round = round, .rank = rank, .world_size = world_size};
}

TEST(Restoring, NewNodesOfANewRunAreNotHeldUp) {
  Restoring restoring(at(0s), 5s);
  EXPECT_EQ(restoring.on_hello(node("a"), {}, false, at(1s)), Returned::Elsewhere);
  EXPECT_FALSE(restoring.is_holding());
  EXPECT_EQ(restoring.next_round(), 0);
}

TEST(Restoring, ANodeThatHadACoordinatorBeforeBeginsAHold) {
  Restoring restoring(at(0s), 5s);
  restoring.on_hello(node("a"), {}, true, at(1s));
  EXPECT_EQ(restoring.hold_until(), at(5s));
  restoring.end_hold();
  // The same node once more, or a new one after that time, begins none.
  restoring.on_hello(node("a"), {}, true, at(2s));
  restoring.on_hello(node("b"), {}, true, at(5s));
  EXPECT_FALSE(restoring.is_holding());
}

TEST(Restoring, TheLatestRoundCounts) {
  Restoring restoring(at(0s), 5s);
  EXPECT_EQ(restoring.on_hello(node("a"), place(3, 0), true, at(0s)), Returned::OfALaterRound);
  EXPECT_EQ(restoring.on_hello(node("b"), place(7, 0), true, at(0s)), Returned::OfALaterRound);
  EXPECT_EQ(restoring.on_hello(node("c"), place(3, 1), true, at(0s)), Returned::Elsewhere);
  EXPECT_EQ(restoring.next_round(), 8);
  const auto found = restoring.end_hold();
  EXPECT_EQ(found.missing, 1);
  EXPECT_FALSE(found.whole_round);
}

TEST(Restoring, KnowsWhenAllMembersHaveComeBack) {
  Restoring restoring(at(0s), 5s);
  restoring.on_hello(node("a"), place(3, 0), true, at(0s));
  EXPECT_EQ(restoring.on_hello(node("b"), place(3, 1), true, at(0s)), Returned::OfTheLatestRound);
  const auto found = restoring.end_hold();
  EXPECT_EQ(found.missing, 0);
  EXPECT_EQ(found.whole_round, 3);
}

TEST(Restoring, BelievesNoPlaceThatCannotBe) {
  Restoring restoring(at(0s), 5s);
  for (const HeldRank& wrong :
       {place(-1, 0), place(0, 2), place(0, -1), place(std::int64_t{1} << 62, 0)}) {
    EXPECT_FALSE(Restoring::can_be(wrong));
    EXPECT_EQ(restoring.on_hello(node("a"), wrong, false, at(0s)), Returned::Elsewhere);
  }
  EXPECT_EQ(restoring.next_round(), 0);
  EXPECT_FALSE(restoring.is_holding());
}

TEST(Restoring, TheFirstFailureIsKeptUntilTheEndOfTheHold) {
  Restoring restoring(at(0s), 5s);
  restoring.keep_failure(node("a"), {.round = 3});
  restoring.keep_failure(node("b"), {.round = 3});
  const auto found = restoring.end_hold();
  ASSERT_TRUE(found.failure);
  EXPECT_EQ(found.failure->first, node("a"));
  EXPECT_FALSE(restoring.end_hold().failure);
}

TEST(Restoring, ARoundThatIsFoundToRunHoldsLongerAndForgetsOlderFailures) {
  Restoring restoring(at(0s), 5s);
  restoring.on_hello(node("a"), place(3, 0), true, at(0s));
  restoring.keep_failure(node("a"), {.round = 3});
  restoring.begin_round();
  restoring.hold_for_round(at(4s));
  EXPECT_EQ(restoring.hold_until(), at(9s));
  EXPECT_TRUE(restoring.take_rank(1));
  EXPECT_FALSE(restoring.take_rank(1));
  EXPECT_FALSE(restoring.end_hold().failure);
}

TEST(Restoring, InOurOwnTimeOnlyTheNumbersOfRoundsMatter) {
  Restoring restoring(at(0s), 5s);
  restoring.leave_the_past();
  EXPECT_EQ(restoring.on_hello(node("a"), place(3, 0), true, at(0s)), Returned::Elsewhere);
  EXPECT_FALSE(restoring.is_holding());
  EXPECT_EQ(restoring.next_round(), 4);
}

}  // namespace
}  // namespace regroup::core::coordinator
