#include "core/coordinator/silence_watch.h"

#include <gtest/gtest.h>

namespace regroup::core::coordinator {
namespace {

Instant at(Duration since_start) { return {since_start}; }

TEST(SilenceWatch, ANodeWithAConnectionHasTheHeartbeatLimitAndOneWithoutTheGrace) {
  SilenceWatch watch(6s, 100ms);
  watch.on_turn(at(1s), false);
  EXPECT_EQ(watch.limit_of(at(1s), true, at(2s)), at(7s));
  EXPECT_EQ(watch.limit_of(at(1s), false, at(2s)), at(1100ms));
}

TEST(SilenceWatch, IsLenientAfterItStoodStillItself) {
  SilenceWatch watch(6s, 100ms);
  watch.on_turn(at(1s), true);
  watch.on_turn(at(5s), true);  // Two thirds of the limit are not too long.
  EXPECT_EQ(watch.grace(at(5s)), 100ms);
  watch.on_turn(at(10s), true);
  EXPECT_EQ(watch.grace(at(15s)), 6s);
  EXPECT_EQ(watch.grace(at(16s)), 100ms);
}

TEST(SilenceWatch, NobodyIsSilentForATimeInWhichItStoodStillItself) {
  SilenceWatch watch(6s, 100ms);
  watch.on_turn(at(1s), true);
  watch.look_by(at(7s));
  watch.on_turn(at(9s), true);  // Two seconds late.
  EXPECT_EQ(watch.limit_of(at(1s), true, at(9s)), at(15s));

  SilenceWatch awake(6s, 100ms);
  awake.on_turn(at(1s), true);
  awake.look_by(at(7s));
  awake.on_turn(at(7s), true);  // In time: nobody has spoken, and that is all.
  EXPECT_EQ(awake.limit_of(at(1s), true, at(7s)), at(7s));
}

TEST(SilenceWatch, WithoutASessionThereIsNothingToBeHeard) {
  SilenceWatch watch(6s, 100ms);
  watch.on_turn(at(1s), true);
  watch.on_turn(at(60s), false);
  EXPECT_EQ(watch.grace(at(60s)), 100ms);
}

TEST(SilenceWatch, LooksAtTheEarliestTimeThatWasAskedForAndOnce) {
  SilenceWatch watch(6s, 100ms);
  EXPECT_FALSE(watch.next_look());
  watch.look_by(at(9s));
  watch.look_by(at(8s));
  watch.look_by(at(10s));
  EXPECT_EQ(watch.next_look(), at(8s));
  EXPECT_FALSE(watch.take_due(at(7s)));
  EXPECT_TRUE(watch.take_due(at(8s)));
  EXPECT_FALSE(watch.take_due(at(8s)));
  watch.look_by(at(20s));
  watch.look_at_once();
  EXPECT_TRUE(watch.take_due(at(8s)));
}

}  // namespace
}  // namespace regroup::core::coordinator
