#include "core/workers/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

namespace regroup::core::workers {
namespace {

using hang::Blame;
using hang::RankAt;
using hang::Sample;
using hang::Votes;
using supervision::End;
using supervision::Exit;
using supervision::kSigKill;
using supervision::kSigTerm;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::VariantWith;

constexpr Instant kStart = Instant{} + 1000s;

Settings two_workers() { return {.ranks = {4, 5}, .grace = 30s, .kill_wait = 10s}; }

Group started(const Settings& settings) {
  Group group(settings);
  group.on_started(kStart);
  return group;
}

// ---- Stops ----

TEST(Group, TellsOfTheFirstFailureBeforeAnythingIsDoneAboutIt) {
  Group group = started(two_workers());
  EXPECT_THAT(group.on_exit(1, {.code = 7}, kStart + 1s),
              ElementsAre(FirstFailure{1}, SignalAll{kSigTerm}));
  // The next one is a consequence.
  group.on_signalled(kSigTerm);
  EXPECT_THAT(group.on_exit(0, {.signal = kSigTerm}, kStart + 2s), ElementsAre(CountAlive{}));
  EXPECT_THAT(group.on_count(0, kStart + 2s), ElementsAre(Over{}));
  EXPECT_TRUE(group.over());
  EXPECT_FALSE(group.next_deadline());
}

TEST(Group, KillsWhatIsAliveWhenTheGraceIsOver) {
  Group group = started(two_workers());
  EXPECT_THAT(group.stop(kSigTerm, 5s, StopFor::Order, kStart), ElementsAre(SignalAll{kSigTerm}));
  EXPECT_TRUE(group.stopping());
  EXPECT_EQ(group.next_deadline(), kStart + 5s);
  EXPECT_THAT(group.on_time(kStart + 5s), ElementsAre(KillAll{}, CountAlive{}));
}

TEST(Group, AWorkerThatIsEndedForItsTimerFailsWhateverItsExit) {
  Group group = started(two_workers());
  EXPECT_THAT(group.end_for(1, kSigTerm, "too late", kStart),
              ElementsAre(SignalWorker{1, kSigTerm}));
  EXPECT_EQ(group.ended_for(1), "too late");
  EXPECT_THAT(group.on_exit(1, {.code = 0}, kStart + 1s),
              ElementsAre(FirstFailure{1}, SignalAll{kSigTerm}));
  EXPECT_EQ(group.outcome(1).end, End::Failed);
  EXPECT_EQ(group.ended_for(0), "");
}

TEST(Group, AWorkerThatHeedsNothingIsKilledAfterItsGrace) {
  Group group = started(two_workers());
  group.end_for(1, kSigTerm, "too late", kStart);
  EXPECT_THAT(group.on_time(kStart + 30s), ElementsAre(SignalWorker{1, kSigKill}));
}

TEST(Group, EndsNoWorkerThatHasEndedOrIsBeingStopped) {
  Group group = started(two_workers());
  group.on_exit(0, {.code = 0}, kStart);
  EXPECT_THAT(group.end_for(0, kSigKill, "too late", kStart), IsEmpty());
  group.stop(kSigTerm, 5s, StopFor::Order, kStart);
  EXPECT_THAT(group.end_for(1, kSigKill, "too late", kStart), IsEmpty());
  EXPECT_EQ(group.ended_for(1), "");
}

// ---- Stacks ----

Settings with_stacks(bool for_failures = false) {
  Settings settings = two_workers();
  settings.takes_stacks = true;
  settings.takes_stacks_for_failures = for_failures;
  return settings;
}

TEST(Group, TakesStacksBeforeAWorkerIsEndedForItsTimer) {
  Group group = started(with_stacks());
  EXPECT_THAT(group.end_for(1, kSigTerm, "too late", kStart),
              ElementsAre(CollectStacks{"rank 5: too late", 400ms}));
  // While they are taken, another one is late; stacks are taken once for both.
  EXPECT_THAT(group.end_for(0, kSigKill, "also late", kStart + 100ms), IsEmpty());
  EXPECT_THAT(group.on_stacks({}, kStart + 200ms),
              ElementsAre(SignalWorker{1, kSigTerm}, SignalWorker{0, kSigKill}));
  EXPECT_THAT(group.on_stacks({}, kStart + 3s), IsEmpty()) << "they were not asked for again";
}

TEST(Group, AnExpiredTimerDoesNotWaitLongForStacks) {
  Group group = started(with_stacks());
  group.end_for(1, kSigTerm, "too late", kStart);
  EXPECT_EQ(group.next_deadline(), kStart + 500ms);
  EXPECT_THAT(group.on_time(kStart + 499ms), IsEmpty());
  EXPECT_THAT(group.on_time(kStart + 500ms), ElementsAre(SignalWorker{1, kSigTerm}));
  EXPECT_THAT(group.on_stacks({}, kStart + 1s), IsEmpty()) << "it is not ended twice";
}

TEST(Group, AWorkerThatEndsWhileStacksAreTakenEndedByItself) {
  Group group = started(with_stacks());
  group.end_for(1, kSigTerm, "too late", kStart);
  group.on_exit(1, {.code = 0}, kStart + 1s);
  EXPECT_THAT(group.on_stacks({}, kStart + 2s), IsEmpty());
  EXPECT_EQ(group.outcome(1).end, End::Succeeded);
  EXPECT_EQ(group.ended_for(1), "");
}

TEST(Group, AStopDoesNotWaitForStacksUnlessItIsForAFailure) {
  Group group = started(with_stacks());
  group.end_for(1, kSigTerm, "too late", kStart);
  EXPECT_THAT(group.stop(kSigTerm, 5s, StopFor::Failure, kStart + 1s),
              ElementsAre(GiveUpStacks{}, SignalAll{kSigTerm}));
  EXPECT_THAT(group.on_stacks({}, kStart + 2s), IsEmpty());
}

TEST(Group, AStopForAFailureIsHeldForStacksAndItsGraceBeginsThen) {
  Group group = started(with_stacks(true));
  EXPECT_THAT(group.on_exit(1, {.code = 7}, kStart),
              ElementsAre(FirstFailure{1}, VariantWith<CollectStacks>(testing::_)));
  EXPECT_THAT(group.on_stacks({}, kStart + 2s), ElementsAre(SignalAll{kSigTerm}));
  EXPECT_EQ(group.next_deadline(), kStart + 2s + 30s);
}

TEST(Group, AnOrderedStopIsNotHeld) {
  Group group = started(with_stacks(true));
  EXPECT_THAT(group.stop(kSigTerm, 5s, StopFor::Order, kStart), ElementsAre(SignalAll{kSigTerm}));
}

TEST(Group, KillingGivesStacksUp) {
  Group group = started(with_stacks(true));
  group.on_exit(1, {.code = 7}, kStart);
  EXPECT_THAT(group.kill(kStart + 1s), ElementsAre(GiveUpStacks{}, KillAll{}, CountAlive{}));
}

// ---- Hangs ----

class Hang : public testing::Test {
 protected:
  static Settings settings(bool asks_others) {
    Settings settings = two_workers();
    settings.hang_timeout = 80s;
    settings.hang_grace = 80s;
    settings.asks_others = asks_others;
    settings.takes_stacks = true;
    settings.others_turn = 15s;
    return settings;
  }

  // Looks as often as the group wants, until something but votes comes of it; the workers do
  // nothing.
  Effects look_until_something(Group& group, Instant limit = kStart + 1000s) {
    while (group.next_deadline() && *group.next_deadline() < limit) {
      now_ = *group.next_deadline();
      EXPECT_THAT(group.on_time(now_), ElementsAre(Look{}));
      Effects effects = group.on_look({Sample{}, Sample{}}, now_);
      std::erase_if(effects, [&](const Effect& effect) {
        const auto* said = std::get_if<SayStalled>(&effect);
        if (said != nullptr) votes_ = said->votes;
        return said != nullptr;
      });
      if (!effects.empty() || votes_) return effects;
    }
    return {};
  }

  static std::vector<RankAt> ours() {
    return {{4, {"in all_reduce", true}}, {5, {"in read()", false}}};
  }

  Instant now_ = kStart;
  std::optional<Votes> votes_;
};

TEST_F(Hang, AloneTheOddOneIsEndedOnceStacksAreTaken) {
  Group group = started(settings(false));
  const Effects effects = look_until_something(group);
  ASSERT_EQ(effects.size(), 2u);
  EXPECT_THAT(std::get<Tell>(effects[0]).text, HasSubstr("hang: ranks 4, 5 have written nothing"));
  EXPECT_TRUE(std::holds_alternative<CollectStacks>(effects[1]));
  EXPECT_THAT(group.on_stacks(ours(), now_), ElementsAre(SignalWorker{1, kSigKill}));
  EXPECT_THAT(group.ended_for(1), HasSubstr("hangs: it has written nothing"));
}

TEST_F(Hang, AWorkerThatSleptOnForTheTimeoutIsNamedWithoutAStack) {
  Group group = started(settings(false));
  look_until_something(group);
  EXPECT_THAT(group.on_stacks(
                  {{4, {"in futex()"}}, {5, {"in sleep()", false, hang::Alone::IfStill}}}, now_),
              ElementsAre(SignalWorker{1, kSigKill}));
  EXPECT_FALSE(group.named_nobody());
}

TEST_F(Hang, NobodyIsNamedWhereNothingTells) {
  Group group = started(settings(false));
  look_until_something(group);
  EXPECT_THAT(group.on_stacks({{4, {"in futex()"}}, {5, {"in poll()"}}}, now_),
              ElementsAre(SignalWorker{0, kSigKill}));
  EXPECT_TRUE(group.named_nobody());
  EXPECT_THAT(group.ended_for(0), HasSubstr("hangs: cannot tell which rank is to blame; workers"));
}

TEST_F(Hang, WhoeverHearsThatNobodyIsNamedEndsAWorkerToEndThemAll) {
  Group group = started(settings(true));
  look_until_something(group);
  group.hear_hang(true, now_);
  group.on_stacks({{4, {"in futex()"}}, {5, {"in futex()"}}}, now_);
  EXPECT_THAT(group.hear_blame({.summary = "ranks 0-5 are in futex()"}, now_),
              ElementsAre(Explain{"ranks 0-5 are in futex()"}, SignalWorker{0, kSigKill}));
  EXPECT_TRUE(group.named_nobody());
}

TEST_F(Hang, LooksNoMoreOnceAWorkerIsBeingEnded) {
  Group group = started(settings(false));
  look_until_something(group);
  group.on_stacks(ours(), now_);
  EXPECT_THAT(group.on_look({Sample{}, Sample{.written = 1}}, now_ + 1s), IsEmpty());
  EXPECT_THAT(group.hear_hang(true, now_ + 1s), IsEmpty());
}

TEST_F(Hang, ATimerThatExpiresWhileItsStacksAreTakenDoesNotWaitForThem) {
  Group group = started(settings(false));
  look_until_something(group);
  EXPECT_THAT(group.end_for(0, kSigTerm, "too late", now_ + 1s), IsEmpty());
  EXPECT_EQ(group.next_deadline(), now_ + 1500ms);
  EXPECT_THAT(group.on_time(now_ + 1500ms), ElementsAre(SignalWorker{0, kSigTerm}));
}

TEST_F(Hang, LooksLaterWhileStacksAreTaken) {
  Group group = started(settings(false));
  look_until_something(group);
  const Instant due = *group.next_deadline();
  EXPECT_THAT(group.on_time(due), IsEmpty());
  EXPECT_EQ(group.next_deadline(), due + 1s);
}

TEST_F(Hang, WithOthersItIsOneOnlyWhenAllSaySo) {
  Group group = started(settings(true));
  EXPECT_THAT(look_until_something(group), IsEmpty());
  EXPECT_EQ(votes_, (Votes{.suspects = 2}));
  const Effects effects = group.hear_hang(true, now_);
  ASSERT_EQ(effects.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<CollectStacks>(effects[1]));
  EXPECT_THAT(group.on_stacks(ours(), now_), ElementsAre(SayWhere{ours()}));
}

TEST_F(Hang, TheRankThatAllBlameIsEnded) {
  Group group = started(settings(true));
  look_until_something(group);
  group.hear_hang(true, now_);
  group.on_stacks(ours(), now_);
  EXPECT_THAT(group.hear_blame({.rank = 4, .summary = "rank 4 is in read()"}, now_),
              ElementsAre(Explain{"rank 4 is in read()"}, SignalWorker{0, kSigKill}));
}

TEST_F(Hang, AnotherNodeHasItsTurnAndThenThisOneActs) {
  Group group = started(settings(true));
  look_until_something(group);
  group.hear_hang(true, now_);
  group.on_stacks(ours(), now_);
  const Instant told = now_;
  EXPECT_THAT(group.hear_blame({.rank = 9}, now_), IsEmpty());
  EXPECT_FALSE(group.others_had_their_turn(told + 14s));
  EXPECT_TRUE(group.others_had_their_turn(told + 15s));
  EXPECT_THAT(group.hear_hang(true, told + 14s), IsEmpty());
  // It sees only its own ranks, and rank 5 may well wait for another.
  EXPECT_THAT(group.hear_hang(true, told + 15s), ElementsAre(SignalWorker{0, kSigKill}));
  EXPECT_TRUE(group.named_nobody());
}

TEST_F(Hang, WhoActsAfterAnotherNodesTurnNamesOnlyWhoCertainlyWaitsForNobody) {
  Group group = started(settings(true));
  look_until_something(group);
  group.hear_hang(true, now_);
  group.on_stacks({{4, {"in futex()"}}, {5, {"in sleep()", false, hang::Alone::Certain}}}, now_);
  EXPECT_THAT(group.hear_hang(true, now_ + 15s), ElementsAre(SignalWorker{1, kSigKill}));
  EXPECT_FALSE(group.named_nobody());
}

TEST_F(Hang, ThatPassesIsForgottenWithItsStacks) {
  Group group = started(settings(true));
  look_until_something(group);
  group.hear_hang(true, now_);
  group.on_stacks(ours(), now_);
  EXPECT_THAT(group.hear_hang(false, now_ + 1s), ElementsAre(ForgetStacks{}));
  EXPECT_THAT(group.hear_blame({.rank = 4}, now_ + 1s), IsEmpty());
  // The next one has stacks of its own.
  EXPECT_THAT(group.hear_hang(true, now_ + 2s),
              ElementsAre(VariantWith<Tell>(testing::_), VariantWith<CollectStacks>(testing::_)));
}

TEST_F(Hang, AWorkerThatWasBlamedButHasEndedIsNoReasonToEndAnother) {
  Group group = started(settings(true));
  look_until_something(group);
  group.hear_hang(true, now_);
  group.on_stacks(ours(), now_);
  group.on_exit(0, {.code = 0}, now_);
  EXPECT_THAT(group.hear_blame({.rank = 4}, now_), ElementsAre(ForgetStacks{}));
}

TEST_F(Hang, IsNotLookedForWithoutATimeout) {
  Group group = started(two_workers());
  EXPECT_FALSE(group.next_deadline());
}

}  // namespace
}  // namespace regroup::core::workers
