// That the invariants about stops and restarts can fail.
#include "sim/session/session_invariants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace regroup::sim {
namespace {

using namespace core::coordinator;
using core::rendezvous::NodeId;
using testing::HasSubstr;
using testing::Optional;

NodeId node(const std::string& name) { return {.address = name, .pid = 1, .local_id = 0}; }

// A run whose first round, with number 0, has one member: a.
class StoppedRound : public testing::Test {
 protected:
  StoppedRound() {
    plan_.rules = {.min_nodes = 1, .max_nodes = 2, .last_call = 1s, .max_restarts = 1};
    invariants_.life_began(at(0s));
    hello("a");
    join("a", 1);
    now_ = at(10s);
    tell("a", Sealed{.round = 0, .world_size = 1, .ranks = {.global_world_size = 1}});
    after_effects();
  }

  static Instant at(Duration time) { return Instant{} + time; }
  void hello(const std::string& name) {
    invariants_.introduced({.node = node(name)}, {.id = node(name)}, now_);
  }
  void join(const std::string& name, std::uint64_t number) {
    invariants_.said(node(name), Join{.number = number});
  }
  void tell(const std::string& name, const FromCoordinator& message) {
    invariants_.told(0, node(name), message, now_);
    invariants_.heard(node(name), message);
  }
  void stop(Stop stop) {
    tell("a", stop);
    after_effects();
  }
  void fail(const std::string& text) {
    invariants_.failed(node("a"), 0, text);
    invariants_.said(node("a"), Failed{.round = 0, .failure = {.text = text}});
  }
  void after_effects() { invariants_.said_all({{.id = node("a"), .workers = 1}}, {}, now_); }

  SessionPlan plan_;
  SessionInvariants invariants_{plan_};
  Instant now_;
};

TEST_F(StoppedRound, HasAReason) {
  stop({.round = 0, .why = Stop::Why::Members, .text = "somebody is gone"});
  EXPECT_THAT(invariants_.violation(), Optional(HasSubstr("round 0 was stopped for no reason")));
}

TEST_F(StoppedRound, MayHaveLostAMember) {
  invariants_.gone(node("a"));
  stop({.round = 0, .why = Stop::Why::Members, .text = "a is gone"});
  EXPECT_EQ(invariants_.violation(), std::nullopt);
}

TEST_F(StoppedRound, DoesNotMissAMemberThatIsDone) {
  invariants_.said(node("a"), Done{.round = 0});
  invariants_.gone(node("a"));
  stop({.round = 0, .why = Stop::Why::Members, .text = "a is gone"});
  EXPECT_THAT(invariants_.violation(), Optional(HasSubstr("for no reason")));
}

TEST_F(StoppedRound, MayMakeRoomForAnotherNode) {
  hello("b");
  join("b", 1);
  stop({.round = 0, .why = Stop::Why::Members, .text = "1 node wants to come in"});
  EXPECT_EQ(invariants_.violation(), std::nullopt);
}

TEST_F(StoppedRound, IsNotStoppedForASpare) {
  plan_.rules.max_nodes = 1;
  hello("b");
  join("b", 1);
  stop({.round = 0, .why = Stop::Why::Members, .text = "1 node wants to come in"});
  EXPECT_THAT(invariants_.violation(), Optional(HasSubstr("for no reason")));
}

TEST_F(StoppedRound, CostsNoRestartIfItsMembersChange) {
  invariants_.gone(node("a"));
  stop({.round = 0, .why = Stop::Why::Members, .text = "a is gone", .restart_count = 1});
  EXPECT_THAT(invariants_.violation(), Optional(HasSubstr("failures account for 0")));
}

TEST_F(StoppedRound, CostsOneRestartIfAWorkerFails) {
  fail("worker 0 failed");
  stop({.round = 0,
        .why = Stop::Why::Failure,
        .text = "worker 0 failed",
        .verdict = Failure{.text = "worker 0 failed"},
        .culprit = node("a"),
        .restart_count = 1});
  EXPECT_EQ(invariants_.violation(), std::nullopt);
}

TEST_F(StoppedRound, DoesNotEndTheRunWhileRestartsAreLeft) {
  fail("worker 0 failed");
  stop({.round = 0,
        .why = Stop::Why::RunFailed,
        .text = "worker 0 failed",
        .verdict = Failure{.text = "worker 0 failed"},
        .culprit = node("a"),
        .restart_count = 0});
  EXPECT_THAT(invariants_.violation(), Optional(HasSubstr("with 0 restarts of 1")));
}

TEST_F(StoppedRound, CountsRestartsWithinTheirWindow) {
  plan_.rules.restart_window = 60s;
  plan_.rules.max_restarts = 0;
  fail("worker 0 failed");
  stop({.round = 0,
        .why = Stop::Why::Failure,
        .text = "worker 0 failed",
        .verdict = Failure{.text = "worker 0 failed"},
        .culprit = node("a"),
        .restart_count = 1});
  EXPECT_THAT(invariants_.violation(), Optional(HasSubstr("1 restarts within 60.000 s")));
}

TEST_F(StoppedRound, MembersChangeOnlySoOften) {
  plan_.rules.max_membership_changes = 0;
  invariants_.gone(node("a"));
  stop({.round = 0, .why = Stop::Why::Members, .text = "a is gone"});
  EXPECT_THAT(invariants_.violation(), Optional(HasSubstr("members have changed 1 times of 0")));
}

}  // namespace
}  // namespace regroup::sim
