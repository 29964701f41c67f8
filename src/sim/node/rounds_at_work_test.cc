#include "sim/node/rounds_at_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace regroup::sim {
namespace {

using testing::HasSubstr;
using testing::Optional;

using Round = RoundsAtWork::Round;

Instant at(Duration time) { return Instant{} + time; }

Duration always_well(std::size_t) { return 1h; }

TEST(RoundsAtWork, OneRoundMayLastForEver) {
  RoundsAtWork rounds(2, 10s);
  EXPECT_FALSE(rounds.began(0, {.life = 1, .number = 0}, at(0s)));
  EXPECT_FALSE(rounds.began(1, {.life = 1, .number = 0}, at(1s)));
  EXPECT_FALSE(rounds.look(at(1000s), always_well));
}

TEST(RoundsAtWork, AnOlderRoundHasItsTimeToEnd) {
  RoundsAtWork rounds(2, 10s);
  EXPECT_FALSE(rounds.began(0, {.life = 1, .number = 0}, at(0s)));
  EXPECT_FALSE(rounds.began(1, {.life = 1, .number = 1}, at(100s)));
  EXPECT_FALSE(rounds.look(at(110s), always_well));
  EXPECT_THAT(rounds.look(at(111s), always_well),
              Optional(HasSubstr("workers of round 0 still live 11.000 s")));
  rounds.ended(0);
  EXPECT_FALSE(rounds.look(at(200s), always_well));
}

TEST(RoundsAtWork, TheTimeBeginsWithTheFirstLaterRound) {
  RoundsAtWork rounds(2, 10s);
  EXPECT_FALSE(rounds.began(0, {.life = 1, .number = 0}, at(0s)));
  EXPECT_FALSE(rounds.began(1, {.life = 1, .number = 1}, at(100s)));
  rounds.ended(1);
  EXPECT_FALSE(rounds.began(1, {.life = 1, .number = 2}, at(108s)));
  EXPECT_TRUE(rounds.look(at(111s), always_well));
}

TEST(RoundsAtWork, ANodeThatCannotBeToldIsNotBlamed) {
  RoundsAtWork rounds(2, 10s);
  EXPECT_FALSE(rounds.began(0, {.life = 1, .number = 0}, at(0s)));
  EXPECT_FALSE(rounds.began(1, {.life = 1, .number = 1}, at(100s)));
  EXPECT_FALSE(rounds.look(at(200s), [](std::size_t) { return Duration(5s); }));
  EXPECT_EQ(rounds.slowest(), Duration(5s));
}

TEST(RoundsAtWork, ANodeThatIsLateWithAnOldRoundIsTheOneToEnd) {
  RoundsAtWork rounds(2, 10s);
  EXPECT_FALSE(rounds.began(1, {.life = 2, .number = 0}, at(0s)));
  EXPECT_FALSE(rounds.began(0, {.life = 1, .number = 7}, at(1s)));
  EXPECT_THAT(rounds.look(at(12s), always_well), Optional(HasSubstr("workers of round 7")));
}

TEST(RoundsAtWork, OneNodeNeverHasTwo) {
  RoundsAtWork rounds(1, 10s);
  EXPECT_FALSE(rounds.began(0, {.life = 1, .number = 0}, at(0s)));
  EXPECT_THAT(rounds.began(0, {.life = 1, .number = 1}, at(1s)),
              Optional(HasSubstr("beside those of round 0")));
}

}  // namespace
}  // namespace regroup::sim
