#include "core/rendezvous/liveness.h"

#include <gtest/gtest.h>

#include "core/rendezvous/rendezvous_testing.h"

namespace regroup::core::rendezvous {
namespace {

State beats(std::initializer_list<std::pair<const char*, std::int64_t>> stamps) {
  State state;
  for (const auto& [name, micros] : stamps) state.last_heartbeats[node(name)] = Stamp{micros};
  return state;
}

TEST(Liveness, JudgesByWhenTheStampChangedAndNotByItsValue) {
  Liveness liveness(5s);
  const std::int64_t an_hour_behind = -3'600'000'000;
  liveness.observe(beats({{"a", an_hour_behind}, {"b", 5}}), at(0s), at(0s));
  EXPECT_TRUE(liveness.silent(node("me"), 15s).empty());
  for (const Duration second : {5s, 10s, 15s})
    liveness.observe(beats({{"a", an_hour_behind}, {"b", 6}}), at(second), at(second));
  EXPECT_TRUE(liveness.silent(node("me"), 15s).empty());  // Exactly at the limit is still in time.
  liveness.observe(beats({{"a", an_hour_behind}, {"b", 6}}), at(16s), at(16s));
  EXPECT_EQ(liveness.silent(node("me"), 15s), std::vector{node("a")});
  liveness.observe(beats({{"a", an_hour_behind + 1}, {"b", 7}}), at(17s), at(17s));
  EXPECT_TRUE(liveness.silent(node("me"), 15s).empty());
}

TEST(Liveness, ASlowAnswerCondemnsNobody) {
  Liveness liveness(5s);
  liveness.observe(beats({{"a", 1}}), at(0s), at(0s));
  // Asked after a second, answered after a minute: it tells how things were after a second.
  liveness.observe(beats({{"a", 1}}), at(1s), at(60s));
  EXPECT_TRUE(liveness.silent(node("me"), 15s).empty());
}

TEST(Liveness, NobodyTakesHimselfForDead) {
  Liveness liveness(5s);
  liveness.observe(beats({{"me", 1}}), at(0s), at(0s));
  for (int second = 0; second <= 60; ++second)
    liveness.observe(beats({{"me", 1}}), at(second * 1s), at(second * 1s));
  EXPECT_TRUE(liveness.silent(node("me"), 15s).empty());
}

TEST(Liveness, AStoreThatWasAwayCondemnsNobody) {
  Liveness liveness(5s);
  liveness.observe(beats({{"a", 1}}), at(0s), at(0s));
  liveness.observe(beats({{"a", 1}}), at(4s), at(4s));
  liveness.observe(beats({{"a", 1}}), at(64s), at(64s));  // No node could write in that minute.
  EXPECT_TRUE(liveness.silent(node("me"), 15s).empty());
  liveness.observe(beats({{"a", 1}}), at(68s), at(68s));
  EXPECT_TRUE(liveness.silent(node("me"), 15s).empty());
  liveness.observe(beats({{"a", 1}}), at(72s), at(72s));  // But now it had the time to.
  EXPECT_EQ(liveness.silent(node("me"), 15s), std::vector{node("a")});
}

TEST(Liveness, WhoComesBackIsCountedAnew) {
  Liveness liveness(5s);
  liveness.observe(beats({{"a", 1}, {"b", 1}, {"c", 1}}), at(0s), at(0s));
  for (const Duration second : {5s, 10s, 15s, 20s})
    liveness.observe(beats({{"a", 1}, {"c", 1}}), at(second), at(second));
  EXPECT_EQ(liveness.silent(node("me"), 15s), (std::vector{node("a"), node("c")}));
  liveness.observe(beats({{"b", 1}, {"c", 1}}), at(25s), at(25s));
  EXPECT_EQ(liveness.silent(node("me"), 15s), std::vector{node("c")});
}

TEST(Liveness, TheLastCallIsTimedFromWhenItWasFirstSeen) {
  Liveness liveness(5s);
  EXPECT_FALSE(liveness.last_call_over(30s, at(1000s)));
  State state;
  state.deadline = Stamp{-600'000'000};  // Its writer's clock is ten minutes behind.
  liveness.observe(state, at(5s), at(5s));
  liveness.observe(state, at(34s), at(34s));
  EXPECT_FALSE(liveness.last_call_over(30s, at(35s)));
  EXPECT_TRUE(liveness.last_call_over(30s, at(35s + 1ns)));
  state.deadline = Stamp{7};  // A new last call.
  liveness.observe(state, at(40s), at(40s));
  EXPECT_EQ(liveness.last_call_end(30s), at(70s));
  state.deadline.reset();
  liveness.observe(state, at(80s), at(80s));
  EXPECT_FALSE(liveness.last_call_over(30s, at(1000s)));
}

}  // namespace
}  // namespace regroup::core::rendezvous
