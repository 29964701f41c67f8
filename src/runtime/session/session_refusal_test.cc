// Refusals, and coordinators that have to prove themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "runtime/session/session.h"
#include "runtime/session/session_fixture_testing.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(SessionTest, ALastingRefusalEndsIt) {
  const auto calls = std::make_shared<std::atomic<int>>(0);
  auto counting = options();
  counting.connect = [calls, address = coordinator_.address()] {
    ++*calls;
    return FakeCoordinator::connect(address);
  };
  Caller caller = start(counting);
  expect_introduction(caller, 1);
  caller.say(Refused{.why = "the run is over", .lasting = true});
  EXPECT_EQ(caller.next(), std::nullopt);  // Closed.
  EXPECT_THAT(wait_for(heard_, 1), ElementsAre(Refused{.why = "the run is over", .lasting = true}));
  say(Done{1});
  {
    // Nothing happens, so there is nothing to wait for: a slow machine may overlook a mistake here,
    // but finds none where there is none.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 200ms, [&] { return !lost_.empty(); });
  }
  end_session();
  EXPECT_THAT(lost_, IsEmpty());
  EXPECT_EQ(*calls, 0);
}

TEST_F(SessionTest, ARefusalThatMayPassIsTriedAgain) {
  Caller caller = start(options());
  expect_introduction(caller, 1);
  caller.say(Refused{.why = "too many", .lasting = false});
  EXPECT_THAT(wait_for(lost_, 1), ElementsAre(HasSubstr("too many")));
  Caller second = coordinator_.accept();
  expect_introduction(second, 2);
  EXPECT_EQ(wait_for(heard_, 1).size(), 1u);
}

TEST_F(SessionTest, ProvesItselfInFrontOfItsIntroductionAndHeedsAProvenCoordinator) {
  Caller caller = start_with_secret(options());
  EXPECT_EQ(caller.next(), FromAgent(kProofs.ours));
  expect_introduction(caller, 1);
  caller.say(kProofs.theirs);
  caller.say(Over{});
  EXPECT_THAT(wait_for(heard_, 1), ElementsAre(FromCoordinator(Over{})));
}

TEST_F(SessionTest, HeedsNothingBeforeTheProofOfTheCoordinator) {
  for (const FromCoordinator& first :
       std::vector<FromCoordinator>{Over{}, Stop{}, Pong{1}, CoordinatorProof{},
                                    CoordinatorProof{kProofs.ours.proof}, Challenge{}}) {
    SCOPED_TRACE(first.index());
    heard_.clear();
    introductions_ = 0;
    {
      Caller caller = start_with_secret(options());
      caller.say(first);
      caller.say(kProofs.theirs);
      caller.say(Over{});
      EXPECT_THAT(wait_for(heard_, 1),
                  ElementsAre(FromCoordinator(Refused{.why = kNotProven, .lasting = true})));
    }
    end_session();
    EXPECT_EQ(heard_.size(), 1u);
  }
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(SessionTest, ARefusalNeedsNoProof) {
  const FromCoordinator refused(Refused{.why = "the secret is not the coordinator's"});
  Caller caller = start_with_secret(options());
  caller.say(refused);
  EXPECT_THAT(wait_for(heard_, 1), ElementsAre(refused));
}

// Somebody else has the port while the coordinator is started again.
TEST_F(SessionTest, AnUnprovenServerIsWaitedOutOnceACoordinatorWasProven) {
  auto some = options();
  int calls = 0;
  some.connect = [&]() -> Result<OpenedSession> {
    if (++calls == 1) return fail(ErrorKind::Refused, "another secret");
    auto next = FakeCoordinator::connect(coordinator_.address());
    if (next) next->proofs = kProofs;
    return next;
  };
  {
    Caller caller = start_with_secret(some);
    caller.say(kProofs.theirs);
    caller.say(Welcome{});
    EXPECT_EQ(wait_for(heard_, 1).size(), 1u);
  }
  EXPECT_THAT(wait_for(lost_, 2), ElementsAre(testing::_, "another secret"));
  for (const FromCoordinator& said : std::vector<FromCoordinator>{Pong{1}, Refused{.why = "go"}}) {
    Caller stranger = coordinator_.accept();
    stranger.say(said);
    while (stranger.next()) {
    }
  }
  Caller again = coordinator_.accept();
  again.say(kProofs.theirs);
  again.say(Over{});
  EXPECT_EQ(wait_for(heard_, 2).back(), FromCoordinator(Over{}));
}

TEST_F(SessionTest, DoesNotComeBackWhenItIsRefusedWhileConnecting) {
  auto once = options();
  once.connect = []() -> Result<OpenedSession> {
    return fail(ErrorKind::Refused, "another secret");
  };
  { const Caller caller = start(once); }
  EXPECT_THAT(wait_for(heard_, 1),
              ElementsAre(FromCoordinator(Refused{.why = "another secret", .lasting = true})));
  say(Ping{1});  // To nobody.
}

}  // namespace
}  // namespace regroup::runtime
