#include "core/supervision/leftovers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace regroup::core::supervision {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Next = Leftovers::Verdict::Next;

Instant at(Duration since) { return Instant{since}; }

const Left kUpload{.pid = 12, .name = "aws", .is_away = true};
const Left kLoader{.pid = 13, .name = "python", .is_away = false};

TEST(Leftovers, WhatEndsWithinAMomentIsNeitherEndedNorTold) {
  Leftovers left({}, at(0s));
  for (const Duration when : {Duration(0s), Duration(10ms), Duration(199ms)}) {
    const auto verdict = left.on_left({kUpload, kLoader}, at(when));
    EXPECT_EQ(verdict.next, Next::LookAgain);
    EXPECT_EQ(verdict.signal_stayed, 0);
    EXPECT_EQ(verdict.tell, "");
    EXPECT_FALSE(verdict.has_succeeded);
    EXPECT_EQ(left.next_look(), at(200ms));
  }
}

TEST(Leftovers, WhatStayedIsEndedAndTold) {
  Leftovers left({.grace = 30s, .kill_wait = 10s}, at(0s));
  auto verdict = left.on_left({kLoader}, at(1s));
  EXPECT_EQ(verdict.signal_stayed, 15);
  EXPECT_THAT(verdict.tell, HasSubstr("ending what they left running: 'python' (pid 13)"));
  EXPECT_FALSE(verdict.has_succeeded);
  verdict = left.on_left({kLoader}, at(2s));
  EXPECT_EQ(verdict.signal_stayed, 0);  // It has its grace.
  EXPECT_EQ(verdict.tell, "");
  EXPECT_EQ(left.next_look(), at(31s));
  EXPECT_EQ(left.on_left({kLoader}, at(31s)).signal_stayed, 9);
  EXPECT_EQ(left.on_left({kLoader}, at(40s)).signal_stayed, 9);
  EXPECT_EQ(left.on_left({kLoader}, at(41s)).next, Next::KillAll);
}

TEST(Leftovers, WithoutAGraceWhatStayedIsKilled) {
  Leftovers left({.grace = 0s}, at(0s));
  EXPECT_EQ(left.on_left({kLoader}, at(1s)).signal_stayed, 9);
}

TEST(Leftovers, WhatIsAwayIsWaitedForAndThenEnded) {
  Leftovers left({.wait = 300s}, at(0s));
  auto verdict = left.on_left({kUpload}, at(1s));
  EXPECT_EQ(verdict.next, Next::LookAgain);
  EXPECT_EQ(verdict.signal_stayed, 0);
  EXPECT_TRUE(verdict.has_succeeded);
  EXPECT_THAT(verdict.tell, AllOf(HasSubstr("waiting 5m00s at most for 'aws' (pid 12)"),
                                  HasSubstr("--children")));
  verdict = left.on_left({kUpload}, at(2s));
  EXPECT_EQ(verdict.tell, "");
  EXPECT_FALSE(verdict.has_succeeded);  // Once.
  EXPECT_EQ(left.on_left({kUpload}, at(300s)).next, Next::LookAgain);
  verdict = left.on_left({kUpload}, at(301s));
  EXPECT_EQ(verdict.next, Next::StopAll);
  EXPECT_THAT(verdict.tell, HasSubstr("ending 'aws' (pid 12), which did not end within 5m00s"));
}

TEST(Leftovers, PeopleHearOfALongWaitLessAndLessOften) {
  Leftovers left({.wait = 24h}, at(0s));
  std::vector<int> told;
  for (int second = 1; second < 2000; ++second)
    if (!left.on_left({kUpload}, at(second * Duration(1s))).tell.empty()) told.push_back(second);
  EXPECT_THAT(told, testing::ElementsAre(1, 61, 181, 421, 901, 1861));
}

TEST(Leftovers, BothKindsAtOnceAreTreatedEachInItsWay) {
  Leftovers left({}, at(0s));
  const auto verdict = left.on_left({kUpload, kLoader}, at(1s));
  EXPECT_EQ(verdict.signal_stayed, 15);
  EXPECT_TRUE(verdict.has_succeeded);
  EXPECT_THAT(verdict.tell, AllOf(HasSubstr("ending what they left running: 'python' (pid 13); "),
                                  HasSubstr("waiting 5m00s at most for 'aws' (pid 12)")));
}

TEST(Leftovers, AllAreEndedIfThatIsTheRule) {
  Leftovers left({.rule = AwayRule::End}, at(0s));
  const auto verdict = left.on_left({kUpload, kLoader}, at(1s));
  EXPECT_EQ(verdict.next, Next::StopAll);
  EXPECT_FALSE(verdict.has_succeeded);
  EXPECT_THAT(verdict.tell, HasSubstr("'aws' (pid 12), 'python' (pid 13)"));
}

TEST(Leftovers, AreLeftIfThatIsTheRuleOnceNobodyNeedsTheLauncher) {
  Leftovers left({.rule = AwayRule::Leave}, at(0s));
  EXPECT_TRUE(left.on_left({kUpload, kLoader}, at(1s)).has_succeeded);
  EXPECT_EQ(left.on_left({kUpload}, at(2s)).next, Next::LookAgain);
  left.let_go();
  EXPECT_EQ(left.on_left({kUpload, kLoader}, at(3s)).next, Next::LookAgain);  // One must end first.
  const auto verdict = left.on_left({kUpload}, at(4s));
  EXPECT_EQ(verdict.next, Next::LetGo);
  EXPECT_THAT(verdict.tell, HasSubstr("left running (--children=leave): 'aws' (pid 12)"));
}

TEST(Leftovers, WhatNobodyCanNameIsEnded) {
  Leftovers left({.rule = AwayRule::Leave}, at(0s));
  EXPECT_EQ(left.on_left({}, at(0s)).next, Next::StopAll);
}

TEST(Leftovers, AFewAreNamedAndTheRestCounted) {
  const std::vector<Left> many(8, kUpload);
  EXPECT_THAT(names_of(many), AllOf(HasSubstr("'aws' (pid 12), 'aws'"), HasSubstr(" and 3 more")));
  EXPECT_THAT(names_of({kUpload}), Not(HasSubstr("more")));
}

}  // namespace
}  // namespace regroup::core::supervision
