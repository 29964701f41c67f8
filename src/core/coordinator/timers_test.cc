#include "core/coordinator/timers.h"

#include <gtest/gtest.h>

namespace regroup::core::coordinator {
namespace {

using rendezvous::Stamp;

Instant at(Duration since_start) { return {since_start}; }

TEST(LastCall, LastsFromWhenItsDeadlineIsSeenFirst) {
  LastCall call(30s);
  EXPECT_FALSE(call.end());
  call.observe(Stamp{17}, at(1s));
  call.observe(Stamp{17}, at(9s));
  EXPECT_EQ(call.end(), at(31s));
  call.observe(Stamp{18}, at(10s));
  EXPECT_EQ(call.end(), at(40s));
  call.observe({}, at(11s));
  EXPECT_FALSE(call.end());
  call.observe(Stamp{18}, at(12s));  // Another last call with the same deadline.
  EXPECT_EQ(call.end(), at(42s));
}

// A stranger's state may have a last call that ends in nothing: once, it was looked at again and
// again.
TEST(LastCall, EndsOnce) {
  LastCall call(30s);
  call.observe(Stamp{17}, at(1s));
  EXPECT_EQ(call.next_look(), at(31s + 1ms));
  EXPECT_FALSE(call.take_end(at(31s)));
  EXPECT_TRUE(call.take_end(at(32s)));
  EXPECT_FALSE(call.take_end(at(33s)));
  EXPECT_FALSE(call.next_look());
  EXPECT_EQ(call.end(), at(31s));
  call.observe(Stamp{18}, at(40s));
  EXPECT_TRUE(call.take_end(at(71s)));
}

TEST(ProgressPace, ToldSoonAtFirstThenOnceASecond) {
  ProgressPace pace(at(0s));
  pace.has_changed(at(10s), 3);
  EXPECT_EQ(pace.next(), at(10050ms));
  pace.has_changed(at(10040ms), 3);
  EXPECT_FALSE(pace.is_due(at(10s)));
  EXPECT_TRUE(pace.is_due(at(10050ms)));
  pace.is_told(at(10050ms));
  EXPECT_FALSE(pace.next());
  pace.has_changed(at(10060ms), 3);
  EXPECT_EQ(pace.next(), at(11050ms));
}

TEST(ProgressPace, ManyNodesAreToldLessOften) {
  ProgressPace pace(at(0s));
  pace.has_changed(at(0s), 10'000);
  EXPECT_EQ(pace.next(), at(10s));
}

}  // namespace
}  // namespace regroup::core::coordinator
