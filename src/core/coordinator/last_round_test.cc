#include "core/coordinator/last_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/rendezvous/rendezvous_testing.h"

namespace regroup::core::coordinator {
namespace {

using rendezvous::node;
using testing::ElementsAre;

TEST(LastRound, AwaitsItsMembersUntilEachHasComeOrGone) {
  LastRound round;
  EXPECT_FALSE(round.awaits_nobody());  // There was none.
  round.seal(3, 2, {node("a"), node("b")}, {"a", "b"});
  round.has_come_or_gone(node("a"));
  EXPECT_FALSE(round.awaits_nobody());
  round.has_come_or_gone(node("b"));
  EXPECT_TRUE(round.awaits_nobody());
  EXPECT_TRUE(round.had(node("b")));
  EXPECT_TRUE(round.had_name("a"));
}

TEST(LastRound, IsStoppedUntilAnotherIsSealed) {
  LastRound round;
  round.seal(3, 1, {node("a")}, {"a"});
  EXPECT_FALSE(round.is_stopped(3));
  round.stop({.why = Stop::Why::Failure, .text = "boom"});
  EXPECT_TRUE(round.is_stopped(3));
  EXPECT_EQ(round.why_stopped().round, 3);
  EXPECT_EQ(round.why_stopped().text, "boom");
  round.seal(4, 1, {node("a")}, {"a"});
  EXPECT_FALSE(round.is_stopped(3));
  EXPECT_FALSE(round.is_stopped(4));
}

TEST(LastRound, ARunMayEndWithoutOne) {
  LastRound round;
  round.stop({.why = Stop::Why::Closed, .text = "closed"});
  EXPECT_FALSE(round.is_stopped(0));
  EXPECT_EQ(round.why_stopped().text, "closed");
}

TEST(LastRound, ARestoredOneGrowsWithThoseWhoComeBack) {
  LastRound round;
  round.add_member(node("a"));
  round.restore(7, 1'000'000);
  EXPECT_TRUE(round.had(node("a")));  // It has said so, and no node named a later round.
  round.add_restored(node("b"), "b");
  EXPECT_EQ(round.world_size(), 1'000'000);
  EXPECT_THAT(round.names(), ElementsAre("b"));
  EXPECT_FALSE(round.awaits_nobody());
}

}  // namespace
}  // namespace regroup::core::coordinator
