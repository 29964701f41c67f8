#include "core/rendezvous/executor.h"

#include <gtest/gtest.h>

#include <memory>

#include "core/rendezvous/rendezvous_testing.h"

namespace regroup::core::rendezvous {
namespace {

// A backend with one state in it; tokens are numbers. Others change it between our steps.
struct Backend {
  std::optional<State> state;
  int version = 0;

  std::optional<Snapshot> snapshot() const {
    if (!state) return std::nullopt;
    return Snapshot{*state, std::to_string(version)};
  }
  void put(State next) {
    state = std::move(next);
    ++version;
  }
};

struct Player {
  Player(const std::string& name, const Settings& settings)
      : executor(settings, node(name), claim(name), 7) {}

  Now now() const { return {clock, Stamp{clock.since_start.count() / 1000 + skew}}; }

  // Carries steps out until the operation is done or rests.
  Step play(Backend& backend, Step step) {
    for (;;) {
      if (step.phase_left) left.push_back(*step.phase_left);
      if (std::holds_alternative<Read>(step.what)) {
        ++reads;
        step = executor.on_read(backend.snapshot(), now());
      } else if (auto* swap = std::get_if<Swap>(&step.what)) {
        transitions = swap->transitions;
        dead = swap->dead;
        const auto present = backend.snapshot();
        const auto token = present ? std::optional(present->token) : std::nullopt;
        if (swap->token == token) {
          backend.put(swap->state);
          step = executor.on_won(std::to_string(backend.version), now());
        } else {
          ++losses;
          step = executor.on_lost(present, now());
        }
      } else {
        return step;
      }
    }
  }

  Step begin(Backend& backend, Operation operation, Duration limit = 60s) {
    return play(backend, executor.begin(operation, limit, now()));
  }

  // Rests as long as it is told to, however often.
  Step finish(Backend& backend, Step step) {
    while (const auto* rest = std::get_if<Rest>(&step.what)) {
      clock = rest->until;
      step = play(backend, executor.on_rested(now()));
    }
    return step;
  }

  Executor executor;
  Instant clock = at(100s);
  std::int64_t skew = 0;
  std::vector<std::string> left;
  std::vector<Transition> transitions;  // Of the last swap, as the nodes
  std::vector<NodeId> dead;             // that it dropped.
  int reads = 0;
  int losses = 0;
};

Outcome outcome(const Step& step) {
  const auto* done = std::get_if<Done>(&step.what);
  return done != nullptr ? done->outcome : Outcome::Unreachable;
}

TEST(Executor, TwoNodesMeet) {
  Backend backend;
  Player a("a", between(2, 2));
  Player b("b", between(2, 2));
  Step waiting = a.begin(backend, Operation::Join);
  ASSERT_TRUE(std::holds_alternative<Rest>(waiting.what));
  EXPECT_EQ(std::get<Rest>(waiting.what).phase, "0.open");
  EXPECT_EQ(outcome(b.begin(backend, Operation::Join)), Outcome::Finished);
  EXPECT_EQ(b.left, std::vector<std::string>{"0.open"});  // What wakes a.
  EXPECT_EQ(outcome(a.finish(backend, waiting)), Outcome::Finished);
  EXPECT_EQ(a.executor.joined().participants, b.executor.joined().participants);
  EXPECT_TRUE(a.executor.standing().whole);
}

TEST(Executor, ALostSwapIsDecidedAgain) {
  Backend backend;
  Player a("a", between(2, 2));
  Step step = a.executor.begin(Operation::Join, 60s, a.now());
  step = a.executor.on_read(backend.snapshot(), a.now());
  ASSERT_TRUE(std::holds_alternative<Swap>(step.what));
  backend.put(joined_by({"b"}, between(2, 2)));  // Another node was faster.
  step = a.finish(backend, a.play(backend, step));
  EXPECT_EQ(a.losses, 1);
  EXPECT_EQ(outcome(step), Outcome::Finished);
  EXPECT_EQ(backend.state->participants.size(), 2u);
}

TEST(Executor, UnderContentionItRestsAndReadsAgain) {
  Backend backend;
  Player a("a", between(64, 64));
  Step step = a.executor.begin(Operation::Join, 60s, a.now());
  step = a.executor.on_read(backend.snapshot(), a.now());
  backend.put(joined_by({"b"}, between(64, 64)));
  step = a.play(backend, step);
  ASSERT_TRUE(std::holds_alternative<Rest>(step.what));
  EXPECT_TRUE(std::get<Rest>(step.what).phase.empty());  // Nothing is worth waking for.
  EXPECT_TRUE(std::holds_alternative<Read>(a.executor.on_rested(a.now()).what));
}

TEST(Executor, WhatBecameOfAnUnansweredSwapIsSeenInTheState) {
  Backend backend;
  Player a("a", between(1, 2));
  Step step = a.executor.begin(Operation::Join, 60s, a.now());
  step = a.executor.on_read(backend.snapshot(), a.now());
  backend.put(std::get<Swap>(step.what).state);  // It was taken, and the answer was lost.
  step = a.executor.on_unreachable(a.now());
  a.clock = a.clock + 30s;
  step = a.finish(backend, step);
  EXPECT_EQ(outcome(step), Outcome::Finished);
  EXPECT_EQ(backend.state->participants.size(), 1u);
}

TEST(Executor, GivesUpOnABackendThatDoesNotAnswer) {
  Player a("a", between(1, 2));
  Step step = a.executor.begin(Operation::KeepAlive, 5s, a.now());
  int tries = 0;
  while (!std::holds_alternative<Done>(step.what)) {
    ASSERT_LT(++tries, 200);
    if (const auto* rest = std::get_if<Rest>(&step.what)) {
      a.clock = rest->until;
      step = a.executor.on_rested(a.now());
    } else {
      step = a.executor.on_unreachable(a.now());
    }
  }
  EXPECT_EQ(outcome(step), Outcome::Unreachable);
  EXPECT_GT(tries, 5);
}

// A host ends with its run; a node that closed the same run once went on for close_timeout.
TEST(Executor, ClosingARunWhoseStoreIsGoneIsGivenUpSoon) {
  for (const Operation operation : {Operation::Close, Operation::Leave}) {
    Player a("a", between(1, 1));
    Step step = a.executor.begin(operation, 30s, a.now());
    const Instant began = a.clock;
    while (!std::holds_alternative<Done>(step.what)) {
      a.clock = a.clock + 100ms;
      if (const auto* rest = std::get_if<Rest>(&step.what)) {
        a.clock = std::max(a.clock, rest->until);
        step = a.executor.on_rested(a.now());
      } else {
        step = a.executor.on_unreachable(a.now());
      }
    }
    EXPECT_EQ(outcome(step), Outcome::Unreachable);
    EXPECT_LT(a.clock - began, 5s);
  }
}

TEST(Executor, SaysStepByStepWhatASwapChanges) {
  Backend backend;
  Player a("a", between(1, 1));
  a.begin(backend, Operation::Join);
  const std::vector<Transition> joined{
      {Action::AddToParticipants, 0}, {Action::KeepAlive, 0}, {Action::MarkComplete, 0}};
  EXPECT_EQ(a.transitions, joined);
  a.begin(backend, Operation::Join);
  const std::vector<Transition> joined_again{{Action::RemoveFromParticipants, 0},
                                             {Action::AddToParticipants, 1},
                                             {Action::KeepAlive, 1},
                                             {Action::MarkComplete, 1}};
  EXPECT_EQ(a.transitions, joined_again);
  Player spare("s", between(1, 1));
  spare.begin(backend, Operation::Join);
  const std::vector<Transition> waits{{Action::AddToRedundancyList, 1}, {Action::KeepAlive, 1}};
  EXPECT_EQ(spare.transitions, waits);
  a.clock = a.clock + 2s;
  a.begin(backend, Operation::Close);
  EXPECT_EQ(a.transitions, (std::vector<Transition>{{Action::MarkClosed, 1}}));
  EXPECT_TRUE(a.dead.empty());
}

TEST(Executor, TheLastCallEndsByEachNodesOwnClock) {
  Settings settings = between(1, 3);
  settings.last_call_timeout = 5s;
  Backend backend;
  Player a("a", settings);
  Player b("b", settings);
  b.skew = 600'000'000;  // Ten minutes ahead.
  Step a_step = a.begin(backend, Operation::Join);
  Step b_step = b.begin(backend, Operation::Join);
  b.clock = a.clock = at(104s);
  ASSERT_TRUE(std::holds_alternative<Rest>(b.play(backend, b.executor.on_rested(b.now())).what));
  b.clock = at(105s + 1ms);
  b_step = b.play(backend, b.executor.on_rested(b.now()));
  EXPECT_EQ(outcome(b_step), Outcome::Finished);
  EXPECT_EQ(outcome(a.finish(backend, a_step)), Outcome::Finished);
  EXPECT_EQ(a.executor.joined().participants.size(), 2u);
}

TEST(Executor, DropsWhoHasGoneSilentAndKeepsWhoBeats) {
  Backend backend;
  Player a("a", between(2, 3));
  backend.put(joined_by({"dead", "alive"}, between(2, 3)));
  Step step = a.begin(backend, Operation::Look);
  std::int64_t stamp = 5'000'000;
  for (int second = 0; second <= 16; ++second) {
    a.clock = a.clock + 1s;
    if (second % 5 == 0)
      backend.put(
          apply(*backend.state, Action::KeepAlive, actor("alive", stamp += 7), between(2, 3)));
    step = a.begin(backend, Operation::Look);
  }
  EXPECT_EQ(outcome(step), Outcome::Finished);
  EXPECT_FALSE(a.executor.state().participants.contains(node("dead")));
  EXPECT_TRUE(a.executor.state().participants.contains(node("alive")));
  EXPECT_EQ(backend.state->participants.size(), 2u);  // Looking writes nothing.
}

TEST(Executor, HeartbeatsAreSentWhenDue) {
  Backend backend;
  Player a("a", between(1, 1));
  ASSERT_EQ(outcome(a.begin(backend, Operation::Join)), Outcome::Finished);
  const int before = backend.version;
  EXPECT_EQ(outcome(a.begin(backend, Operation::KeepAlive, 5s)), Outcome::Finished);
  EXPECT_EQ(backend.version, before);
  a.clock = a.clock + 5s;
  EXPECT_EQ(outcome(a.begin(backend, Operation::KeepAlive, 5s)), Outcome::Finished);
  EXPECT_EQ(backend.version, before + 1);
}

TEST(Executor, TellsWhatHasBecomeOfTheRound) {
  Backend backend;
  const Settings settings = between(1, 2);
  Player a("a", settings);
  backend.put(joined_by({"b"}, settings));
  ASSERT_EQ(outcome(a.begin(backend, Operation::Join)), Outcome::Finished);
  EXPECT_TRUE(a.executor.standing().member);
  EXPECT_TRUE(a.executor.standing().whole);

  backend.put(without(*backend.state, {node("b")}, settings));
  a.clock = a.clock + 1s;
  (void)a.begin(backend, Operation::Look);
  EXPECT_TRUE(a.executor.standing().member);
  EXPECT_FALSE(a.executor.standing().whole);

  backend.put(without(*backend.state, {node("a")}, settings));
  a.clock = a.clock + 1s;
  (void)a.begin(backend, Operation::Look);
  EXPECT_FALSE(a.executor.standing().member);
}

TEST(Executor, ASecondOldStateServesANewOperation) {
  Backend backend;
  Player a("a", between(1, 1));
  (void)a.begin(backend, Operation::Look);
  EXPECT_EQ(a.reads, 1);
  a.clock = a.clock + 999ms;
  (void)a.begin(backend, Operation::Look);
  EXPECT_EQ(a.reads, 1);
  a.clock = a.clock + 1ms;
  (void)a.begin(backend, Operation::Look);
  EXPECT_EQ(a.reads, 2);
}

TEST(Executor, ASpareThatIsNeededHasTheWholeJoinTimeoutAgain) {
  Backend backend;
  Settings settings = between(1, 1);
  Player s("s", settings);
  backend.put(joined_by({"a"}, settings));
  Step step = s.begin(backend, Operation::Join);
  EXPECT_TRUE(backend.state->redundancy_list.contains(node("s")));
  s.clock = at(10'000s);  // Far beyond the join timeout.
  backend.put(apply(*backend.state, Action::RemoveFromParticipants, actor("a"), settings));
  step = s.finish(backend, s.play(backend, s.executor.on_rested(s.now())));
  EXPECT_EQ(outcome(step), Outcome::Finished);
  EXPECT_EQ(s.executor.joined().round, 1);
}

TEST(Executor, TimesOutAndLeavesTheList) {
  Backend backend;
  Player a("a", between(2, 2));
  EXPECT_EQ(outcome(a.finish(backend, a.begin(backend, Operation::Join))), Outcome::TimedOut);
  EXPECT_TRUE(backend.state->participants.empty());
}

TEST(Executor, AStaleAnnouncementDoesNotKeepItFromResting) {
  Backend backend;
  Player a("a", between(2, 2));
  Step step = a.begin(backend, Operation::Join);
  EXPECT_EQ(std::get<Rest>(step.what).phase, "0.open");
  a.clock = a.clock + 1us;  // Woken at once: the phase was announced as over, long ago.
  step = a.play(backend, a.executor.on_rested(a.now()));
  ASSERT_TRUE(std::holds_alternative<Rest>(step.what));
  EXPECT_EQ(std::get<Rest>(step.what).phase, "");
  EXPECT_GT(std::get<Rest>(step.what).until - a.clock, 10ms);
}

TEST(Executor, ASwapThatWasGivenUpIsNotTakenForTheState) {
  Backend backend;
  Player a("a", between(3, 3));
  backend.put(joined_by({"b"}, between(3, 3)));
  Step step = a.executor.begin(Operation::Join, 60s, a.now());
  step = a.executor.on_read(backend.snapshot(), a.now());
  ASSERT_TRUE(std::holds_alternative<Swap>(step.what));
  // The host gives up here: interrupted, or an error that no trying again can cure.
  (void)a.begin(backend, Operation::Join);
  EXPECT_TRUE(backend.state->participants.contains(node("a")));
  EXPECT_TRUE(backend.state->participants.contains(node("b")));
}

TEST(Executor, ARoundLargerThanItsMaximumMakesANodeASpare) {
  Backend backend;
  backend.put(joined_by({"a", "b", "c"}, between(3, 3)));
  Player other("d", between(2, 2));
  const Step step = other.begin(backend, Operation::Join);
  EXPECT_TRUE(std::holds_alternative<Rest>(step.what));
  EXPECT_TRUE(backend.state->redundancy_list.contains(node("d")));
}

TEST(Executor, ASealedRoundWithoutMembersIsNobodysToLeave) {
  Backend backend;
  State state;
  state.round = 4;
  state.complete = true;
  backend.put(state);
  Player a("a", between(1, 1));
  EXPECT_EQ(outcome(a.begin(backend, Operation::Join)), Outcome::Finished);
  EXPECT_EQ(a.executor.joined().round, 5);
}

TEST(Executor, ANewRoundOfTheSameNumberIsNotTheOldOne) {
  Backend backend;
  Player a("a", between(1, 1));
  ASSERT_EQ(outcome(a.begin(backend, Operation::Join)), Outcome::Finished);
  backend.state.reset();  // The store came back with nothing in it.
  a.clock = a.clock + 2s;
  (void)a.begin(backend, Operation::Look);
  EXPECT_EQ(outcome(a.begin(backend, Operation::Join)), Outcome::Finished);
  EXPECT_EQ(a.executor.joined().round, 0);
}

TEST(Executor, AClosedRunEndsTheJoin) {
  Backend backend;
  Player a("a", between(2, 2));
  Player b("b", between(2, 2));
  Step step = a.begin(backend, Operation::Join);
  EXPECT_EQ(outcome(b.begin(backend, Operation::Close)), Outcome::Finished);
  EXPECT_EQ(b.left, std::vector<std::string>{"0.open"});
  EXPECT_EQ(outcome(a.finish(backend, step)), Outcome::Closed);
  EXPECT_EQ(outcome(b.begin(backend, Operation::Close)), Outcome::Finished);  // Twice is fine.
}

}  // namespace
}  // namespace regroup::core::rendezvous
