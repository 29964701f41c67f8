#include "core/supervision/supervision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace regroup::core::supervision {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Instant at(Duration since) { return Instant{since}; }

Supervision running(int workers, Duration grace = 30s, Duration kill_wait = 10s) {
  Supervision group({.workers = workers, .grace = grace, .kill_wait = kill_wait});
  group.on_started();
  return group;
}

// Plays the orders as a host does: the signal reaches every worker that still runs.
Effects obeyed(Supervision& group, Effects effects) {
  for (const Effect& effect : effects) {
    if (const auto* order = std::get_if<SignalAll>(&effect)) group.on_signalled(order->number);
    if (std::holds_alternative<KillAll>(effect)) group.on_signalled(kSigKill);
  }
  return effects;
}

constexpr Exit kGood{};
constexpr Exit kSegfault{.signal = 11};
constexpr Exit kByTerm{.signal = 15};
constexpr Exit kByKill{.signal = 9};

TEST(Supervision, IsOverWhenAllHaveSucceededAndNothingIsLeft) {
  Supervision group = running(2);
  EXPECT_THAT(group.on_exit(0, kGood, at(1s)), IsEmpty());
  EXPECT_FALSE(group.next_deadline());
  EXPECT_THAT(group.on_exit(1, kGood, at(2s)), ElementsAre(Effect(CountAlive{})));
  EXPECT_THAT(group.on_count(0, at(2s)), ElementsAre(Effect(GroupOver{})));
  EXPECT_EQ(group.phase(), Phase::Over);
  EXPECT_TRUE(group.succeeded());
  EXPECT_FALSE(group.first_failure());
}

TEST(Supervision, StopsTheOthersAtTheFirstFailure) {
  Supervision group = running(3);
  EXPECT_THAT(obeyed(group, group.on_exit(1, kSegfault, at(1s))),
              ElementsAre(Effect(SignalAll{15})));
  EXPECT_EQ(group.phase(), Phase::Stopping);
  EXPECT_EQ(group.next_deadline(), at(31s));
  EXPECT_THAT(group.on_exit(0, kByTerm, at(2s)), IsEmpty());
  EXPECT_THAT(group.on_exit(2, {.code = 1}, at(3s)), ElementsAre(Effect(CountAlive{})));
  EXPECT_THAT(group.on_count(0, at(3s)), ElementsAre(Effect(GroupOver{})));
  EXPECT_EQ(group.first_failure(), 1);
  EXPECT_EQ(group.workers()[1].end, End::Failed);
  EXPECT_EQ(group.workers()[0].end, End::Stopped);
  EXPECT_EQ(group.workers()[0].signalled, 15);
  EXPECT_EQ(group.workers()[2].end, End::Stopped);
  EXPECT_EQ(group.workers()[2].order, 2);
  EXPECT_FALSE(group.succeeded());
}

TEST(Supervision, NamesTheFirstByTheOrderOfTheKernelsWord) {
  Supervision group = running(2);
  obeyed(group, group.on_exit(1, {.code = 3}, at(1s)));
  group.on_exit(0, kSegfault, at(1s));  // The same instant, but reported second.
  EXPECT_EQ(group.first_failure(), 1);
  EXPECT_EQ(group.workers()[0].end,
            End::Failed);  // A crash of its own, though we had signalled it.
}

TEST(Supervision, KillsWhoDoesNotHeed) {
  Supervision group = running(2);
  obeyed(group, group.on_exit(0, {.code = 1}, at(0s)));
  EXPECT_THAT(group.on_deadline(at(29s)), IsEmpty());
  EXPECT_THAT(obeyed(group, group.on_deadline(at(30s))),
              ElementsAre(Effect(KillAll{}), Effect(CountAlive{})));
  EXPECT_EQ(group.waiting_for(at(30s)), "1 of 2 workers still run (1), killed; given up in 10 s");
  EXPECT_THAT(group.on_exit(1, kByKill, at(30s)), ElementsAre(Effect(CountAlive{})));
  EXPECT_THAT(group.on_count(0, at(30s)), ElementsAre(Effect(GroupOver{})));
  EXPECT_EQ(group.workers()[1].signalled, kSigKill);
}

TEST(Supervision, KillsAgainWhileOneLeaderCannotDie) {
  Supervision group = running(2);
  obeyed(group, group.kill(at(0s)));
  EXPECT_THAT(group.on_count(3, at(0s)),
              ElementsAre(Effect(KillAll{})));  // Two were started meanwhile.
  EXPECT_LT(*group.next_deadline(), at(1s));
  group.on_exit(0, kByKill, at(0s));
  EXPECT_THAT(group.on_count(1, at(1s)), ElementsAre(Effect(KillAll{})));
  EXPECT_THAT(group.on_deadline(at(10s)), ElementsAre(Effect(GroupOver{})));
  EXPECT_EQ(group.workers()[1].end, End::Survived);
}

TEST(Supervision, WhoDiesOfTheSignalThatWeSentDidNotCrash) {
  Supervision group = running(1);
  obeyed(group, group.stop(6, 5s, at(0s)));
  group.on_exit(0, {.signal = 6}, at(1s));
  EXPECT_EQ(group.workers()[0].end, End::Stopped);
}

TEST(Supervision, WhoEndedBeforeTheSignalEndedByHimself) {
  Supervision group = running(3);
  const Effects orders = group.on_exit(1, {.code = 3}, at(1s));
  group.on_exit(0, {.code = 3}, at(1s));  // Seen when the host was about to signal.
  obeyed(group, orders);
  group.on_exit(2, kByTerm, at(2s));
  EXPECT_EQ(group.workers()[0].end, End::Failed);
  EXPECT_EQ(group.workers()[2].end, End::Stopped);
}

TEST(Supervision, TheEndOfACondemnedOneIsItsOwnFailureHoweverItEnds) {
  Supervision group = running(2);
  EXPECT_TRUE(group.condemn(1, 15, at(1s)));
  EXPECT_THAT(group.on_exit(1, kGood, at(1s)), ElementsAre(Effect(SignalAll{15})));
  EXPECT_EQ(group.workers()[1].end, End::Failed);
  EXPECT_EQ(group.first_failure(), 1);
}

TEST(Supervision, KillsACondemnedOneThatDoesNotHeed) {
  Supervision group = running(2);
  EXPECT_TRUE(group.condemn(1, 15, at(1s)));
  EXPECT_EQ(group.next_deadline(), at(31s));
  EXPECT_THAT(group.on_deadline(at(31s)), ElementsAre(Effect(KillWorker{1})));
  EXPECT_EQ(group.next_deadline(), at(41s));
  EXPECT_THAT(group.on_exit(1, kByKill, at(32s)), ElementsAre(Effect(SignalAll{15})));
  EXPECT_EQ(group.first_failure(), 1);
}

TEST(Supervision, GivesUpOnACondemnedOneWhomTheKernelDoesNotLetGo) {
  Supervision group = running(2);
  EXPECT_TRUE(group.condemn(1, kSigKill, at(1s)));
  EXPECT_EQ(group.next_deadline(), at(11s));
  obeyed(group, group.on_deadline(at(11s)));
  EXPECT_EQ(group.phase(), Phase::Killing);
  group.on_exit(0, kByKill, at(11s));
  EXPECT_THAT(group.on_deadline(at(21s)), ElementsAre(Effect(GroupOver{})));
  EXPECT_EQ(group.workers()[1].end, End::Survived);
}

TEST(Supervision, CondemnsNobodyWhoHasEndedAndNobodyDuringAStop) {
  Supervision group = running(3);
  group.on_exit(0, kGood, at(1s));
  EXPECT_FALSE(group.condemn(0, 15, at(1s)));
  obeyed(group, group.stop(15, 30s, at(2s)));
  EXPECT_FALSE(group.condemn(1, 15, at(2s)));
  group.on_exit(1, kByTerm, at(3s));
  EXPECT_EQ(group.workers()[1].end, End::Stopped);
}

TEST(Supervision, GivesUpOnWhoCannotBeKilled) {
  Supervision group = running(1);
  obeyed(group, group.kill(at(0s)));
  EXPECT_EQ(group.next_deadline(), at(10s));
  EXPECT_THAT(group.on_deadline(at(10s)), ElementsAre(Effect(GroupOver{})));
  EXPECT_EQ(group.workers()[0].end, End::Survived);
  EXPECT_FALSE(group.succeeded());
  EXPECT_THAT(group.on_exit(0, kByKill, at(60s)), IsEmpty());  // Too late: the outcome is final.
  EXPECT_EQ(group.workers()[0].end, End::Survived);
}

TEST(Supervision, StopsWhatTheWorkersLeftBehind) {
  Supervision group = running(1);
  EXPECT_THAT(group.on_exit(0, kGood, at(1s)), ElementsAre(Effect(CountAlive{})));
  EXPECT_THAT(group.on_count(2, at(1s)), ElementsAre(Effect(LookAtLeft{})));
  // Nobody can say what they are.
  EXPECT_THAT(obeyed(group, group.on_left({}, at(1s))), ElementsAre(Effect(SignalAll{15})));
  EXPECT_EQ(group.waiting_for(at(1s)), "2 processes that the workers left behind, killed in 30 s");
  const auto soon = group.next_deadline();
  ASSERT_TRUE(soon);
  EXPECT_LT(*soon, at(1100ms));
  EXPECT_THAT(group.on_deadline(*soon), ElementsAre(Effect(CountAlive{})));
  EXPECT_THAT(group.on_count(1, *soon), IsEmpty());
  EXPECT_THAT(group.on_deadline(at(31s)), ElementsAre(Effect(KillAll{}), Effect(CountAlive{})));
  // A fork that was quicker than the kill is killed again.
  EXPECT_THAT(group.on_count(1, at(31s)), ElementsAre(Effect(KillAll{})));
  EXPECT_THAT(group.on_deadline(*group.next_deadline()), ElementsAre(Effect(CountAlive{})));
  EXPECT_THAT(group.on_count(0, at(32s)), ElementsAre(Effect(GroupOver{})));
  EXPECT_TRUE(group.succeeded());
}

const Left kUpload{.pid = 12, .name = "aws", .is_away = true};
const Left kLoader{.pid = 13, .name = "python"};

// Has one worker, which has succeeded, and something of it is there.
Supervision lingering(const Settings& settings = {}) {
  Supervision group(settings);
  group.on_started();
  group.on_exit(0, kGood, at(0s));
  EXPECT_THAT(group.on_count(1, at(0s)), ElementsAre(Effect(LookAtLeft{})));
  EXPECT_EQ(group.phase(), Phase::Lingering);
  return group;
}

TEST(Supervision, LingersForWhatWasMeantToGoOn) {
  Supervision group = lingering();
  EXPECT_THAT(group.on_left({kUpload}, at(0s)), IsEmpty());
  EXPECT_LT(*group.next_deadline(), at(1s));
  EXPECT_THAT(group.on_deadline(at(1s)), ElementsAre(Effect(CountAlive{})));
  EXPECT_THAT(group.on_count(2, at(1s)), ElementsAre(Effect(LookAtLeft{})));
  const Effects effects = group.on_left({kUpload, kLoader}, at(1s));
  ASSERT_EQ(effects.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<Tell>(effects[0]));
  EXPECT_EQ(effects[1], Effect(SignalStayed{15}));
  EXPECT_EQ(effects[2], Effect(Succeeded{}));
  EXPECT_FALSE(group.condemn(0, 15, at(1s)));
  EXPECT_THAT(group.on_count(0, at(2s)), ElementsAre(Effect(GroupOver{})));
  EXPECT_TRUE(group.succeeded());
}

TEST(Supervision, StopsLingeringOnOrder) {
  Supervision group = lingering();
  group.on_left({kUpload}, at(1s));
  EXPECT_THAT(group.stop(2, 5s, at(2s)), ElementsAre(Effect(SignalAll{2})));
  EXPECT_EQ(group.phase(), Phase::Stopping);
  Supervision other = lingering();
  EXPECT_THAT(other.kill(at(2s)), ElementsAre(Effect(KillAll{}), Effect(CountAlive{})));
}

TEST(Supervision, LeavesWhatMayOutliveItOnceItIsNotNeeded) {
  Supervision group = lingering({.away = AwayRule::Leave});
  EXPECT_THAT(group.on_left({kUpload}, at(1s)), ElementsAre(Effect(Succeeded{})));
  EXPECT_THAT(group.let_go(at(2s)), IsEmpty());
  EXPECT_EQ(group.next_deadline(), at(2s));
  EXPECT_THAT(group.on_deadline(at(2s)), ElementsAre(Effect(CountAlive{})));
  group.on_count(1, at(2s));
  const Effects effects = group.on_left({kUpload}, at(2s));
  ASSERT_EQ(effects.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<Tell>(effects[0]));
  EXPECT_EQ(effects[1], Effect(LetGo{}));
  EXPECT_EQ(effects[2], Effect(GroupOver{}));
}

TEST(Supervision, AfterAFailureNothingIsWaitedFor) {
  Supervision group = running(1);
  group.on_exit(0, {.code = 1}, at(0s));
  EXPECT_THAT(group.on_count(1, at(0s)), ElementsAre(Effect(SignalAll{15})));
}

TEST(Supervision, LooksLessOftenTheLongerItTakes) {
  Supervision group = running(1);
  group.on_exit(0, kGood, at(0s));
  Instant now = at(0s);
  int looks = 0;
  group.on_count(1, now);
  group.on_left({}, now);
  while (group.phase() == Phase::Stopping) {
    now = *group.next_deadline();
    for (const Effect& effect : group.on_deadline(now))
      if (effect == Effect(CountAlive{})) ++looks, group.on_count(1, now);
  }
  EXPECT_GT(looks, 30);
  EXPECT_LT(looks, 400);
}

TEST(Supervision, ObeysAnOrder) {
  Supervision group = running(2);
  EXPECT_THAT(obeyed(group, group.stop(2, 5s, at(1s))), ElementsAre(Effect(SignalAll{2})));
  EXPECT_EQ(group.next_deadline(), at(6s));
  group.on_exit(0, kGood, at(2s));
  // It ended well, but because we had asked it to.
  EXPECT_EQ(group.workers()[0].end, End::Stopped);
  EXPECT_THAT(obeyed(group, group.kill(at(3s))),  // A second Ctrl-C.
              ElementsAre(Effect(KillAll{}), Effect(CountAlive{})));
  EXPECT_THAT(obeyed(group, group.kill(at(3s))), IsEmpty());
  group.on_exit(1, kByKill, at(3s));
  group.on_count(0, at(3s));
  EXPECT_EQ(group.phase(), Phase::Over);
  EXPECT_FALSE(group.first_failure());
}

TEST(Supervision, AnOrderDuringAStopCanOnlyShortenIt) {
  Supervision group = running(2);
  obeyed(group, group.on_exit(0, {.code = 1}, at(0s)));
  EXPECT_THAT(obeyed(group, group.stop(15, 60s, at(1s))), ElementsAre(Effect(SignalAll{15})));
  EXPECT_EQ(group.next_deadline(), at(30s));
  group.stop(15, 5s, at(1s));
  EXPECT_EQ(group.next_deadline(), at(6s));
}

TEST(Supervision, NoGraceIsAKill) {
  Supervision group = running(2, 0s);
  EXPECT_THAT(group.on_exit(0, {.code = 1}, at(0s)),
              ElementsAre(Effect(KillAll{}), Effect(CountAlive{})));
}

TEST(Supervision, SaysWhatItWaitsFor) {
  Supervision group({.workers = 8});
  EXPECT_EQ(group.waiting_for(at(0s)), "the workers have not been started");
  group.on_started();
  group.on_exit(0, kGood, at(0s));
  EXPECT_EQ(group.waiting_for(at(0s)), "7 of 8 workers still run (1-7)");
  group.stop(15, 12s, at(0s));
  for (const int rank : {2, 3, 6, 7}) group.on_exit(rank, kByTerm, at(1s));
  EXPECT_EQ(group.waiting_for(at(1s)), "3 of 8 workers still run (1, 4, 5), killed in 11 s");
}

}  // namespace
}  // namespace regroup::core::supervision
