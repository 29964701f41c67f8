#include "core/output/prefix.h"

#include <gtest/gtest.h>

namespace regroup::core::output {
namespace {

TEST(Prefix, IsMadeOfItsValues) {
  Prefix prefix("[${role}${local_rank}]:", {{"role", "default"}, {"local_rank", "3"}});
  EXPECT_FALSE(prefix.has_time());
  EXPECT_EQ(prefix.at("12:00:00.000"), "[default3]:");
}

TEST(Prefix, FollowsTheTime) {
  Prefix prefix("$time ${rank} ", {{"rank", "3"}});
  EXPECT_TRUE(prefix.has_time());
  EXPECT_EQ(prefix.at("12:00:00.000"), "12:00:00.000 3 ");
  EXPECT_EQ(prefix.at("12:00:00.001"), "12:00:00.001 3 ");
}

TEST(Prefix, ATimeThatIsEscapedIsNone) {
  EXPECT_FALSE(Prefix("$$time", {}).has_time());
  EXPECT_FALSE(Prefix("time", {}).has_time());
}

}  // namespace
}  // namespace regroup::core::output
