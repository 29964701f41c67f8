#include "runtime/session/pulse.h"

#include <gtest/gtest.h>

namespace regroup::runtime {
namespace {

constexpr Instant at(Duration since) { return Instant{100s + since}; }

TEST(Pulse, PingsThreeTimesThenGivesUp) {
  Pulse pulse(6s, at(0s));
  EXPECT_EQ(pulse.next(), at(2s));
  EXPECT_EQ(pulse.look(at(1s)), Pulse::Due::Nothing);
  EXPECT_EQ(pulse.look(at(2s)), Pulse::Due::Ping);
  EXPECT_EQ(pulse.look(at(2s)), Pulse::Due::Nothing);
  EXPECT_EQ(pulse.look(at(4s)), Pulse::Due::Ping);
  EXPECT_EQ(pulse.next(), at(6s));
  EXPECT_EQ(pulse.look(at(6s)), Pulse::Due::Lost);
}

TEST(Pulse, WhateverIsHeardCountsAndPingsGoOn) {
  Pulse pulse(6s, at(0s));
  for (int i = 1; i < 20; ++i) {
    EXPECT_EQ(pulse.look(at(i * 2s)), Pulse::Due::Ping);
    pulse.heard(at(i * 2s + 1s));
  }
}

TEST(Pulse, WhoComesBackLateAsksBeforeHeJudges) {
  Pulse pulse(6s, at(0s));
  EXPECT_EQ(pulse.look(at(3600s)), Pulse::Due::Ping);
  EXPECT_EQ(pulse.look(at(3602s)), Pulse::Due::Ping);
  EXPECT_EQ(pulse.look(at(3604s)), Pulse::Due::Ping);
  EXPECT_EQ(pulse.look(at(3606s)), Pulse::Due::Lost);
}

TEST(Pulse, TakesAnotherLimitAtOnce) {
  Pulse pulse(60s, at(0s));
  pulse.set_limit(6s);
  EXPECT_EQ(pulse.next(), at(2s));
  pulse.set_limit(Duration{});
  EXPECT_GT(pulse.next(), at(0s));
  pulse.set_limit(Duration::max());
  EXPECT_GT(pulse.next(), at(0s));
}

}  // namespace
}  // namespace regroup::runtime
