#include "core/coordinator/member.h"

#include <gtest/gtest.h>

namespace regroup::core::coordinator {
namespace {

Member member() { return Member({.run_id = "r", .node = {.address = "a", .pid = 1}}); }

Member running() {
  Member one = member();
  one.join({.address = "a", .port = 1});
  one.on_message(Sealed{.round = 3, .rank = 1, .world_size = 2, .restart_count = 1});
  return one;
}

TEST(Member, AsksAgainOnANewConnectionForWhatItHasNotGot) {
  Member one = member();
  EXPECT_EQ(one.introduction().size(), 1u);
  one.join({.address = "a", .port = 7});
  ASSERT_EQ(one.introduction().size(), 2u);
  EXPECT_EQ(std::get<Join>(one.introduction()[1]).bootstrap.port, 7);
  EXPECT_FALSE(std::get<Hello>(one.introduction()[0]).running);
}

TEST(Member, SaysInWhichRoundItIs) {
  Member one = running();
  ASSERT_EQ(one.introduction().size(), 1u);
  const auto told = std::get<Hello>(one.introduction()[0]).running;
  ASSERT_TRUE(told);
  EXPECT_EQ(told->place.round, 3);
  EXPECT_EQ(told->restart_count, 1);
  EXPECT_FALSE(told->done);
  one.done();
  EXPECT_TRUE(std::get<Hello>(one.introduction()[0]).running->done);
}

TEST(Member, RepeatsAFailureUntilItIsAnswered) {
  Member one = running();
  one.failed({.text = "rank 1 failed"});
  EXPECT_EQ(one.introduction().size(), 2u);
  one.on_message(Stop{.round = 3, .why = Stop::Why::Failure, .text = "rank 0 failed"});
  EXPECT_EQ(one.introduction().size(), 1u);
  EXPECT_EQ(one.stop()->text, "rank 0 failed");
}

TEST(Member, DoesNotHearWhatIsAboutAnOlderRound) {
  Member one = running();
  one.on_message(Stop{.round = 2});
  EXPECT_FALSE(one.stop());
  one.join({});
  one.on_message(Stop{.round = 3});
  EXPECT_FALSE(one.stop());
  one.on_message(Sealed{.round = 4});
  EXPECT_FALSE(one.joining());
  one.on_message(Sealed{.round = 9});  // We have not asked for it.
  EXPECT_EQ(one.sealed()->round, 4);
}

TEST(Member, TheFirstWordAboutARoundsEndCounts) {
  Member one = running();
  one.on_message(Stop{.round = 3, .text = "first"});
  one.on_message(Stop{.round = 3, .text = "second"});
  EXPECT_EQ(one.stop()->text, "first");
}

TEST(Member, TheEndOfTheRunIsHeardInAnyRound) {
  Member one = running();
  one.join({});
  one.on_message(Stop{.round = 3, .why = Stop::Why::RunFailed, .text = "rank 0 failed"});
  ASSERT_TRUE(one.end());
  EXPECT_EQ(one.end()->text, "rank 0 failed");
}

}  // namespace
}  // namespace regroup::core::coordinator
