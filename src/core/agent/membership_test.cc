#include "core/agent/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>

namespace regroup::core::agent {
namespace {

using namespace coordinator;
using coordinator::Stop;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Instant at(Duration time) { return Instant{} + time; }

const rendezvous::NodeId kUs{.address = "here", .pid = 1, .local_id = 0};
const rendezvous::NodeId kOther{.address = "there", .pid = 2, .local_id = 0};

Hello hello() {
  Hello hello;
  hello.run_id = "r";
  hello.node = kUs;
  hello.claim.name = "n1";
  return hello;
}

Membership joining(Membership::Settings settings = {.join_timeout = 60s}) {
  Membership membership(hello(), settings);
  membership.join({.address = "here", .port = 1}, at(0s));
  return membership;
}

Membership in_round(Membership::Settings settings = {.join_timeout = 60s}) {
  Membership membership = joining(settings);
  membership.on_message(Sealed{.round = 4, .rank = 1, .world_size = 2}, at(1s));
  return membership;
}

template <class T>
std::vector<T> of(const Membership::Effects& effects) {
  std::vector<T> found;
  for (const auto& effect : effects)
    if (const auto* one = std::get_if<T>(&effect)) found.push_back(*one);
  return found;
}

template <class T>
std::vector<T> said(const Membership::Effects& effects) {
  std::vector<T> found;
  for (const auto& say : of<Membership::Say>(effects))
    if (const auto* one = std::get_if<T>(&say.message)) found.push_back(*one);
  return found;
}

TEST(Membership, JoinsAndIsToldItsRound) {
  Membership membership(hello(), {});
  EXPECT_EQ(said<coordinator::Join>(membership.join({.address = "here", .port = 9}, at(0s))).size(),
            1u);
  const auto joined =
      of<Membership::Joined>(membership.on_message(Sealed{.round = 4, .rank = 1}, at(1s)));
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].sealed.round, 4);
  EXPECT_EQ(membership.next_deadline(), std::nullopt);
}

TEST(Membership, GivesUpAJoinThatTakesTooLongAndSaysWhatWasMissing) {
  Membership membership = joining();
  membership.on_message(Progress{.text = "round 0: 1 of 2 nodes joined"}, at(1s));
  EXPECT_THAT(of<Membership::JoinFailed>(membership.on_time(at(59s))), IsEmpty());
  const auto effects = membership.on_time(at(60s));
  const auto failed = of<Membership::JoinFailed>(effects);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].error.kind, ErrorKind::Timeout);
  EXPECT_EQ(failed[0].error.message,
            "the nodes did not meet within 1m00s (join_timeout): round 0: 1 of 2 nodes joined");
  EXPECT_THAT(said<coordinator::Leave>(membership.leave(false, at(61s))),
              ElementsAre(coordinator::Leave{.why = "its time to join was over"}));
  // It has said goodbye; that need not be said again.
  EXPECT_THAT(said<coordinator::Leave>(membership.leave(false, at(62s))), IsEmpty());
}

TEST(Membership, ANodeWhoseTimeToJoinWasOverMayCloseTheRun) {
  Membership membership = joining();
  ASSERT_THAT(of<Membership::JoinFailed>(membership.on_time(at(60s))), SizeIs(1));
  EXPECT_THAT(said<coordinator::Leave>(membership.leave(true, at(60s))),
              ElementsAre(coordinator::Leave{.why = "its time to join was over", .close = true}));
}

TEST(Membership, ASpareWaitsWithoutALimit) {
  Membership membership = joining();
  membership.on_message(Progress{.text = "a spare", .spare = true}, at(1s));
  for (Duration time = 2s; time < 600s; time += 1s)
    EXPECT_THAT(of<Membership::JoinFailed>(membership.on_time(at(time))), IsEmpty());
  const auto failed = of<Membership::JoinFailed>(membership.on_message(Over{}, at(600s)));
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].why, JoinFailure::NotNeeded);
}

TEST(Membership, ASpareWhoseCoordinatorIsGoneGivesUp) {
  Membership membership = joining();
  membership.on_message(Progress{.text = "a spare", .spare = true}, at(1s));
  membership.on_time(at(100s));
  membership.on_lost("closed by the peer", at(101s));
  EXPECT_THAT(of<Membership::JoinFailed>(membership.on_time(at(159s))), IsEmpty());
  const auto failed = of<Membership::JoinFailed>(membership.on_time(at(160s)));
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].error.kind, ErrorKind::Timeout);
  EXPECT_THAT(failed[0].error.message, HasSubstr("the coordinator cannot be reached: closed by"));
}

TEST(Membership, AnotherJoinHasItsOwnLimit) {
  Membership membership = in_round({.join_timeout = 60s, .rejoin_timeout = 5s});
  membership.join({.address = "here", .port = 1}, at(10s));
  EXPECT_THAT(of<Membership::JoinFailed>(membership.on_time(at(14s))), IsEmpty());
  const auto failed = of<Membership::JoinFailed>(membership.on_time(at(15s)));
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_THAT(failed[0].error.message, HasSubstr("(--rejoin-timeout)"));
}

TEST(Membership, TellsOfItsFailureInItsOwnName) {
  Membership membership = in_round();
  const auto failed =
      said<Failed>(membership.failed({.rank = 3, .exit_code = -9, .text = "killed"}));
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].round, 4);
  EXPECT_EQ(failed[0].failure.node, "n1");
}

TEST(Membership, SaysNothingAboutAFailureOutsideOfARound) {
  Membership membership = joining();
  EXPECT_THAT(membership.failed({.rank = 3}), IsEmpty());
  EXPECT_THAT(membership.done(), IsEmpty());
}

TEST(Membership, MakesAnOrderOfAStopOnce) {
  Membership membership = in_round();
  const Stop stop{.round = 4,
                  .why = Stop::Why::Failure,
                  .text = "rank 3 failed",
                  .verdict = Failure{.rank = 3},
                  .culprit = kOther,
                  .restart_count = 1};
  const auto ordered = of<Membership::Ordered>(membership.on_message(stop, at(2s)));
  ASSERT_EQ(ordered.size(), 1u);
  EXPECT_EQ(ordered[0].order, (Order{.kind = Order::Kind::Rejoin,
                                     .text = "rank 3 failed",
                                     .is_failure = true,
                                     .is_ours = false,
                                     .restart_count = 1}));
  EXPECT_THAT(of<Membership::Ordered>(membership.on_message(stop, at(3s))), IsEmpty());
}

TEST(Membership, KnowsItsOwnFailureInAnOrder) {
  Membership membership = in_round();
  const auto ordered =
      of<Membership::Ordered>(membership.on_message(Stop{.round = 4,
                                                         .why = Stop::Why::RunFailed,
                                                         .note = "a crash loop",
                                                         .verdict = Failure{.rank = 3},
                                                         .culprit = kUs},
                                                    at(2s)));
  ASSERT_EQ(ordered.size(), 1u);
  EXPECT_EQ(ordered[0].order.kind, Order::Kind::RunFailed);
  EXPECT_TRUE(ordered[0].order.is_ours);
  EXPECT_EQ(ordered[0].order.note, "a crash loop");
}

TEST(Membership, WhoComesBackToARunThatFailedIsToldWhy) {
  Membership membership = in_round();
  membership.join({.address = "here", .port = 1}, at(2s));
  const auto failed =
      of<Membership::JoinFailed>(membership.on_message(Stop{.round = 5,
                                                            .why = Stop::Why::RunFailed,
                                                            .text = "rank 3 failed",
                                                            .verdict = Failure{.rank = 3},
                                                            .culprit = kOther},
                                                       at(3s)));
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].why, JoinFailure::RunFailed);
  EXPECT_EQ(failed[0].end.text, "rank 3 failed");
}

TEST(Membership, ALostConnectionIsToldOnceAndMended) {
  Membership membership = in_round();
  EXPECT_THAT(of<Membership::Reached>(membership.on_lost("closed", at(2s))).at(0).trouble,
              HasSubstr("cannot be reached: closed"));
  EXPECT_THAT(membership.on_lost("closed", at(3s)), IsEmpty());
  EXPECT_EQ(
      of<Membership::Reached>(membership.on_message(Welcome{.member = true}, at(4s))).at(0).trouble,
      "");
}

TEST(Membership, ARefusalThatMayPassIsNoAnswer) {
  Membership membership = in_round();
  membership.on_lost("closed", at(2s));
  EXPECT_THAT(membership.on_message(Refused{.why = "no room", .lasting = false}, at(3s)),
              IsEmpty());
  EXPECT_EQ(of<Membership::Reached>(membership.on_lost("no room", at(3s))).size(), 1u);
  EXPECT_THAT(membership.on_lost("no room", at(4s)), IsEmpty());  // The same again.
}

TEST(Membership, ClosesTheRunAndWaitsAMomentForTheAnswer) {
  Membership membership = in_round();
  const auto effects = membership.leave(true, at(10s));
  EXPECT_THAT(said<coordinator::Leave>(effects), ElementsAre(coordinator::Leave{.close = true}));
  EXPECT_THAT(of<Membership::Flush>(effects), IsEmpty());
  EXPECT_EQ(membership.next_deadline(), at(12s));
  Membership unheard = membership;
  EXPECT_EQ(of<Membership::Flush>(membership.on_message(Over{}, at(11s))).size(), 1u);
  EXPECT_EQ(of<Membership::Flush>(unheard.on_time(at(12s))).size(), 1u);
}

TEST(Membership, LeavesARunThatIsOverWithoutClosingIt) {
  Membership membership = in_round();
  membership.on_message(Over{}, at(2s));
  const auto effects = membership.leave(true, at(3s));
  EXPECT_THAT(said<coordinator::Leave>(effects), ElementsAre(coordinator::Leave{}));
  EXPECT_EQ(of<Membership::Flush>(effects).size(), 1u);
}

TEST(Membership, DoesNotWaitForACoordinatorThatIsGone) {
  Membership membership = in_round();
  membership.on_lost("closed", at(2s));
  EXPECT_EQ(of<Membership::Flush>(membership.leave(true, at(3s))).size(), 1u);
}

TEST(Membership, HandsOnWhatIsForItsWorkersInTheRoundThatItIsIn) {
  const auto handed_on = [](Membership& membership, const FromCoordinator& message) {
    std::vector<ForWorkers> all;
    for (const auto& one : of<Membership::HandOn>(membership.on_message(message, at(2s))))
      all.push_back(one.message);
    return all;
  };
  const Warned warned{.signal = 10, .node = "n2"};
  const Hangs hangs{.round = 4, .all_say_so = true};
  Membership membership = in_round();
  EXPECT_THAT(handed_on(membership, warned), ElementsAre(ForWorkers(warned)));
  EXPECT_THAT(handed_on(membership, hangs), ElementsAre(ForWorkers(hangs)));
  EXPECT_THAT(handed_on(membership, Hangs{.round = 3, .all_say_so = true}), IsEmpty());
  Membership outside = joining();
  EXPECT_THAT(handed_on(outside, warned), IsEmpty());
  EXPECT_THAT(handed_on(outside, hangs), IsEmpty());
}

TEST(Membership, ReportsOfItsWorkersNameTheRoundThatItIsIn) {
  Membership membership = in_round();
  EXPECT_THAT(said<Where>(membership.report(Where{})), ElementsAre(Where{.round = 4}));
  EXPECT_THAT(said<Warn>(membership.report(Warn{.signal = 10})), ElementsAre(Warn{.signal = 10}));
  EXPECT_THAT(joining().report(Where{}), IsEmpty());
}

// Every look is reported while they are stalled, because a coordinator may have been started again.
TEST(Membership, SaysOnceThatItsWorkersAreStalledNoMore) {
  Membership membership = in_round();
  const hang::Votes votes{.suspects = 1};
  EXPECT_THAT(membership.stalled({}), IsEmpty());
  EXPECT_EQ(said<Stalled>(membership.stalled(votes)).size(), 1u);
  EXPECT_EQ(said<Stalled>(membership.stalled(votes)).size(), 1u);
  EXPECT_THAT(said<Stalled>(membership.stalled({})), ElementsAre(Stalled{.round = 4}));
  EXPECT_THAT(membership.stalled({}), IsEmpty());
}

TEST(Membership, SaysAgainOnANewConnectionWhatIsNotAnswered) {
  Membership membership = in_round();
  membership.failed({.rank = 3});
  const auto again = membership.introduction();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_TRUE(std::get<Hello>(again[0]).running);
  EXPECT_TRUE(std::holds_alternative<Failed>(again[1]));
}

}  // namespace
}  // namespace regroup::core::agent
