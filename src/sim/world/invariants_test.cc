// Each invariant fails for the state that breaks it, and says so in words.
#include "sim/world/invariants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace regroup::sim {
namespace {

using core::rendezvous::Claim;
using core::rendezvous::HeldRank;
using core::rendezvous::NodeId;
using core::rendezvous::Settings;
using core::rendezvous::Stamp;
using core::rendezvous::State;
using testing::HasSubstr;

const NodeId kA{.address = "a", .pid = 1, .local_id = 0};
const NodeId kB{.address = "b", .pid = 1, .local_id = 0};
const NodeId kC{.address = "c", .pid = 1, .local_id = 0};

Settings two_to_three() {
  Settings settings;
  settings.run_id = "r";
  settings.min_nodes = 2;
  settings.max_nodes = 3;
  settings.last_call_timeout = 4s;
  settings.keep_alive_interval = 2s;
  settings.keep_alive_attempts = 3;
  return settings;
}

class InvariantsTest : public testing::Test {
 protected:
  InvariantsTest() : invariants_(two_to_three(), 3, {}) {
    add(kA, {0s});
    state_.deadline = Stamp{99};
    add(kB, {0s});
  }

  void change(const NodeId& writer, Instant now, const std::function<void(State&)>& by) {
    const State before = state_;
    by(state_);
    invariants_.on_change(now, writer, before, state_);
  }
  void add(const NodeId& node, Instant now) {
    change(node, now, [&](State& state) {
      if (state.participants.size() == 1) state.deadline = Stamp{99};
      state.participants[node] = 0;
      state.last_heartbeats[node] = Stamp{++stamps_};
    });
  }
  void seal(Instant now = {10s}) {
    change(kA, now, [](State& state) {
      state.complete = true;
      state.deadline.reset();
      state.participants[kB] = 1;
    });
  }
  std::string violation() const { return invariants_.violation().value_or(""); }

  Invariants invariants_;
  State state_;
  std::int64_t stamps_ = 0;
};

TEST_F(InvariantsTest, AGoodRoundIsGood) {
  seal();
  invariants_.on_joined(0, kA, state_);
  invariants_.on_joined(1, kB, state_);
  EXPECT_EQ(violation(), "");
  EXPECT_EQ(invariants_.seals(), 1);
  EXPECT_EQ(invariants_.joins(), 2);
}

TEST_F(InvariantsTest, RoundsDoNotGoBack) {
  state_.round = 3;
  change(kA, {11s}, [](State& state) { state.round = 2; });
  EXPECT_THAT(violation(), HasSubstr("went back from 3 to 2"));
}

TEST_F(InvariantsTest, ASealedRoundIsNotOpenedAgain) {
  seal();
  change(kA, {11s}, [](State& state) { state.complete = false; });
  EXPECT_THAT(violation(), HasSubstr("opened again"));
}

TEST_F(InvariantsTest, RanksOfASealedRoundStay) {
  seal();
  change(kA, {11s},
         [](State& state) { std::swap(state.participants[kA], state.participants[kB]); });
  EXPECT_THAT(violation(), HasSubstr("changed from"));
}

TEST_F(InvariantsTest, NobodyComesIntoASealedRound) {
  seal();
  add(kC, {11s});
  EXPECT_THAT(violation(), HasSubstr("after it had been sealed"));
}

TEST_F(InvariantsTest, RanksAreWithoutGapAndDouble) {
  change(kA, {10s}, [](State& state) {
    state.complete = true;
    state.participants[kB] = 2;
  });
  EXPECT_THAT(violation(), HasSubstr("are not 0..1"));
}

TEST_F(InvariantsTest, ARoundIsNotSealedTooSmallOrTooEarly) {
  seal({3s});
  EXPECT_THAT(violation(), HasSubstr("sealed 3.000 s after the last call began"));
  Invariants small(two_to_three(), 3, {});
  State one;
  one.complete = true;
  one.participants[kA] = 0;
  one.last_heartbeats[kA] = Stamp{1};
  small.on_change({1s}, kA, {}, one);
  EXPECT_THAT(*small.violation(), HasSubstr("with 1 nodes, outside 2..3"));
}

TEST_F(InvariantsTest, NobodyWaitsBehindAFullRound) {
  const NodeId late{.address = "d", .pid = 1, .local_id = 0};
  change(kC, {1s}, [&](State& state) {
    state.complete = true;
    state.deadline.reset();
    state.participants = {{kA, 0}, {kB, 1}, {kC, 2}};
    state.last_heartbeats[kC] = Stamp{77};
    state.wait_list.insert(late);
  });
  EXPECT_THAT(violation(), HasSubstr("d still waits"));
}

TEST_F(InvariantsTest, ANodeIsOnOneListAndHasAHeartbeat) {
  change(kA, {1s}, [](State& state) { state.wait_list.insert(kA); });
  EXPECT_THAT(violation(), HasSubstr("a is on two lists"));
  Invariants others(two_to_three(), 3, {});
  State state;
  state.wait_list.insert(kC);
  others.on_change({1s}, kC, {}, state);
  EXPECT_THAT(*others.violation(), HasSubstr("without a heartbeat"));
}

TEST_F(InvariantsTest, NobodyIsDroppedWhileItsHeartbeatsArrive) {
  change(kB, {5s}, [](State& state) { state.last_heartbeats[kB] = Stamp{55}; });
  change(kA, {10s}, [](State& state) {
    state.participants.erase(kB);
    state.last_heartbeats.erase(kB);
    state.deadline.reset();
  });
  EXPECT_THAT(violation(), HasSubstr("a dropped b, whose last heartbeat came 5.000 s ago"));
}

TEST_F(InvariantsTest, WhoIsSilentBeyondTheLimitMayBeDropped) {
  change(kA, {7s}, [](State& state) {
    state.participants.erase(kB);
    state.last_heartbeats.erase(kB);
    state.deadline.reset();
  });
  EXPECT_EQ(violation(), "");
}

TEST_F(InvariantsTest, ClosedIsForGood) {
  change(kA, {1s}, [](State& state) { state.closed = true; });
  change(kB, {2s}, [](State& state) { state.closed = false; });
  EXPECT_THAT(violation(), HasSubstr("opened again"));
}

TEST_F(InvariantsTest, EverybodySeesTheSameWorld) {
  seal();
  State left = state_;
  left.participants.erase(kB);
  invariants_.on_joined(0, kA, left);
  EXPECT_THAT(violation(), HasSubstr("with a world of 1; it was sealed with 2"));
}

TEST_F(InvariantsTest, ANodeIsInOneRoundAtATimeAndNeverInAnOlderOne) {
  seal();
  invariants_.on_joined(0, kA, state_);
  invariants_.on_left(0);
  invariants_.on_joined(0, kA, state_);
  EXPECT_THAT(violation(), HasSubstr("after it had been in round 0"));
}

TEST_F(InvariantsTest, NobodyElseHoldsTheSameRank) {
  seal();
  invariants_.on_joined(0, kA, state_);
  invariants_.on_joined(2, kA, state_);
  EXPECT_THAT(violation(), HasSubstr("as rank 0, which another machine holds"));
}

TEST_F(InvariantsTest, MembersKeepTheirRanksInARoundOfTheSameSize) {
  for (const auto& [node, rank] : {std::pair(kA, 1), std::pair(kB, 0)})
    state_.claims[node] = Claim{.name = node.address,
                                .wish = {},
                                .held = HeldRank{.round = 4, .rank = rank, .world_size = 2}};
  seal();
  EXPECT_THAT(violation(), HasSubstr("a had rank 1 of 2 in round 4 and lost it"));
}

TEST_F(InvariantsTest, AJoinHasItsWholeTime) {
  invariants_.on_join_timed_out(kA, 600s);
  EXPECT_EQ(violation(), "");
  invariants_.on_join_timed_out(kA, 599s);
  EXPECT_THAT(violation(), HasSubstr("gave its join up after 599.000 s of its 600.000 s"));
}

// --- with a coordinator ------------------------------------------------------------------------

class CoordinatedTest : public InvariantsTest {
 protected:
  // Of a and b only a has a session.
  void coordinate(Instant now, const std::function<void(State&)>& by) {
    const State before = state_;
    by(state_);
    invariants_.on_coordinated(now, before, state_, [](const NodeId& id) { return id != kA; });
  }
  std::string violation() const { return invariants_.violation().value_or("none"); }
};

TEST_F(CoordinatedTest, TheCoordinatorDropsNobodyWhoIsHeard) {
  coordinate({7s}, [](State& state) { state = {}; });
  EXPECT_EQ(violation(), "none");
  add(kB, {8s});
  coordinate({13s}, [](State& state) { state = {}; });
  EXPECT_THAT(violation(), HasSubstr("the coordinator dropped b, whose last heartbeat came 5.000"));
}

TEST_F(CoordinatedTest, TheCoordinatorWritesHeartbeatsOfSessionsOnly) {
  coordinate({1s}, [](State& state) { state.last_heartbeats[kA] = Stamp{77}; });
  EXPECT_EQ(violation(), "none");
  coordinate({1s}, [](State& state) { state.last_heartbeats[kB] = Stamp{77}; });
  EXPECT_THAT(violation(), HasSubstr("the coordinator wrote a heartbeat of b"));
}

TEST_F(CoordinatedTest, TheCoordinatorMaySealBeforeTheLastCallIsOver) {
  coordinate({1s}, [](State& state) {
    state.complete = true;
    state.deadline.reset();
    state.participants[kB] = 1;
  });
  EXPECT_EQ(violation(), "none");
}

TEST_F(CoordinatedTest, ARoundOfItsTimeBeforeComesBackMemberByMember) {
  coordinate({1s}, [](State& state) {
    state.round = 7;
    state.complete = true;
    state.deadline.reset();
    state.seal = {.round = 7, .world_size = 2};
    state.participants = {{kA, 1}};
    state.wait_list = {kB};
  });
  coordinate({2s}, [](State& state) {
    state.participants[kC] = 0;
    state.last_heartbeats[kC] = Stamp{1};
  });
  EXPECT_EQ(violation(), "none");
  coordinate({3s}, [](State& state) { state.participants[kC] = 1; });
  EXPECT_THAT(violation(), HasSubstr("the rank of c in round 7 changed from 0 to 1"));
}

TEST_F(CoordinatedTest, WhoIsInTheNextRoundHasLeftTheLast) {
  seal();
  invariants_.on_joined(1, kB, state_);
  coordinate({11s}, [](State& state) {
    state.round = 1;
    state.participants[kA] = 0;
  });
  EXPECT_THAT(violation(), HasSubstr("round 1 begins while b is still in round 0"));
}

TEST_F(CoordinatedTest, RoundsMayBeCountedAgainInAnotherStore) {
  seal();
  invariants_.on_joined(1, kB, state_);
  invariants_.on_left(1);
  invariants_.forget_rounds();
  state_ = {};
  add(kA, {20s});
  add(kB, {20s});
  seal({30s});
  invariants_.on_joined(1, kB, state_);
  EXPECT_EQ(violation(), "none");
}

}  // namespace
}  // namespace regroup::sim
