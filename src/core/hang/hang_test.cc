#include "core/hang/hang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace regroup::core::hang {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Settings kSettings{.timeout = 80s, .grace = 100s};
constexpr Duration kPause = 10s;

// Workers whose samples are moved on by hand, and looked at every ten seconds.
struct Group {
  explicit Group(int workers)
      : detector(kSettings, workers, Instant{}),
        now(detector.next_look()),
        samples(static_cast<std::size_t>(workers), Sample{}) {
    detector.on_look(samples, now);  // After the grace; the next looks are compared with this one.
  }
  // Every worker in `busy` uses a CPU, every one in `writing` writes a line.
  void pass(Duration time, const std::vector<std::size_t>& busy = {},
            const std::vector<std::size_t>& writing = {}) {
    for (Duration passed{}; passed < time; passed += kPause) {
      for (const std::size_t rank : busy) samples[rank]->cpu += kPause;
      for (const std::size_t rank : writing) samples[rank]->written += 10;
      now = now + kPause;
      detector.on_look(samples, now);
    }
  }
  HangDetector detector;
  Instant now;
  std::vector<std::optional<Sample>> samples;
};

TEST(HangDetector, DoesNotLookBeforeTheGraceIsOver) {
  const HangDetector detector(kSettings, 1, Instant{5s});
  EXPECT_EQ(detector.next_look(), Instant{105s});
  EXPECT_FALSE(detector.stalled());
}

TEST(HangDetector, SuspectsEverybodyWhenNobodyDoesAnything) {
  Group group(2);
  group.pass(70s);
  EXPECT_FALSE(group.detector.stalled());
  group.pass(10s);
  const auto stall = group.detector.stalled();
  ASSERT_TRUE(stall);
  EXPECT_THAT(stall->suspects, ElementsAre(0, 1));
  EXPECT_EQ(stall->quiet, 80s);
}

TEST(HangDetector, TellsWhoseMainThreadSleptOnAndWhoseWokeUpNowAndThen) {
  Group group(2);
  for (int look = 0; look < 8; ++look) {
    group.samples[1]->turns += 3;
    group.pass(kPause);
  }
  const auto stall = group.detector.stalled();
  ASSERT_TRUE(stall);
  EXPECT_THAT(stall->suspects, ElementsAre(0, 1));
  EXPECT_THAT(stall->still, ElementsAre(0));
}

TEST(HangDetector, OneHangsWhileTheOthersHaveBegunToWait) {
  Group group(3);
  group.pass(60s, {0, 1});
  group.pass(10s);
  EXPECT_FALSE(group.detector.stalled()) << "they may be between two steps";
  group.pass(10s);
  const auto stall = group.detector.stalled();
  ASSERT_TRUE(stall);
  EXPECT_THAT(stall->suspects, ElementsAre(2));
  EXPECT_THAT(stall->waiting, ElementsAre(0, 1));
}

TEST(HangDetector, WhoComputesOrWritesIsWaitedFor) {
  Group computing(3);
  computing.pass(70s, {0});
  EXPECT_FALSE(computing.detector.stalled());
  Group writing(3);
  writing.pass(1000s, {}, {0});
  EXPECT_FALSE(writing.detector.stalled());
}

TEST(HangDetector, OneThatComputesForLongSpinsButTheOthersOutnumberIt) {
  Group group(3);
  group.pass(200s, {0});
  const auto stall = group.detector.stalled();
  ASSERT_TRUE(stall);
  EXPECT_THAT(stall->spinning, ElementsAre(0));
  EXPECT_FALSE(is_hang({.suspects = 2, .spinning = 1})) << "they wait for it";
  EXPECT_TRUE(is_hang({.suspects = 1, .spinning = 2})) << "it hangs, they spin";
  EXPECT_TRUE(is_hang({.suspects = 1, .spinning = 0}));
  EXPECT_FALSE(is_hang({.suspects = 0, .spinning = 8}));
}

TEST(HangDetector, DataThatMovesIsASignOfLife) {
  Group group(1);
  for (int i = 0; i < 100; ++i) {
    group.samples[0]->moved += 10 * 1024 * 1024;
    group.pass(10s);
  }
  EXPECT_FALSE(group.detector.stalled());
  group.samples[0]->moved += 100;  // A monitor's.
  group.pass(80s);
  EXPECT_TRUE(group.detector.stalled());
}

TEST(HangDetector, ATimerRequestIsASignOfLife) {
  Group group(1);
  group.pass(70s);
  ++group.samples[0]->requests;
  group.pass(70s);
  EXPECT_FALSE(group.detector.stalled());
}

TEST(HangDetector, WhoIsHeldDoesNotHang) {
  Group group(1);
  group.samples[0]->held = true;
  group.pass(1000s);
  EXPECT_FALSE(group.detector.stalled());
}

TEST(HangDetector, ThreadsThatOnlyKeepWatchAreNoWork) {
  Group group(1);
  for (int i = 0; i < 8; ++i) {
    group.samples[0]->cpu += 100ms;  // One percent.
    group.pass(10s);
  }
  EXPECT_TRUE(group.detector.stalled());
}

TEST(HangDetector, TimeInWhichNobodyRanDoesNotCount) {
  Group group(1);
  group.pass(40s);
  group.now = group.now + 1000s;  // The whole job was suspended.
  group.detector.on_look(group.samples, group.now);
  EXPECT_FALSE(group.detector.stalled());
  group.pass(30s);
  EXPECT_TRUE(group.detector.stalled());
}

TEST(HangDetector, WhatWeMadeThemDoIsNoSignOfLife) {
  Group group(1);
  group.pass(80s);
  group.detector.on_disturbed();
  group.samples[0]->held = true;
  group.pass(10s, {}, {0});
  EXPECT_TRUE(group.detector.stalled());
  group.pass(10s, {}, {0});
  EXPECT_FALSE(group.detector.stalled());
}

TEST(HangDetector, WhoHasEndedIsNotWaitedForButItsEndIsNews) {
  Group group(2);
  group.pass(200s, {}, {0});
  group.samples[0].reset();
  group.pass(80s);
  EXPECT_FALSE(group.detector.stalled()) << "the other may not have noticed yet";
  group.pass(10s);
  const auto stall = group.detector.stalled();
  ASSERT_TRUE(stall);
  EXPECT_THAT(stall->suspects, ElementsAre(1));
  EXPECT_THAT(stall->waiting, IsEmpty());
}

TEST(HangDetector, SaysWhichSignalsSaidSo) {
  EXPECT_THAT(signals_in_words(62s), HasSubstr("used no CPU time"));
  EXPECT_THAT(signals_in_words(62s), HasSubstr("1m02s"));
}

}  // namespace
}  // namespace regroup::core::hang
