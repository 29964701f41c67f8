#include "core/rendezvous/decide.h"

#include <gtest/gtest.h>

#include "core/rendezvous/rendezvous_testing.h"

namespace regroup::core::rendezvous {
namespace {

constexpr Reading kInTime{.now = {10s}, .give_up = {60s}};
constexpr Reading kDue{.now = {10s}, .give_up = {60s}, .heartbeat_due = true};
constexpr Reading kLate{.now = {61s}, .give_up = {60s}};

Action join(const State& state, const std::string& name, const Settings& settings,
            const Reading& reading = kInTime) {
  return decide(Operation::Join, state, node(name), settings, reading);
}

State sealed(const std::vector<std::string>& names) {
  return joined_by(names, between(1, static_cast<std::int64_t>(names.size())));
}

TEST(Decide, AClosedRunIsAnErrorForAllButSpares) {
  State state = sealed({"a"});
  state = apply(state, Action::AddToRedundancyList, actor("s"), between(1, 1));
  state.closed = true;
  EXPECT_EQ(join(state, "b", between(1, 1)), Action::ErrorClosed);
  EXPECT_EQ(join(state, "a", between(1, 1)), Action::ErrorClosed);
  EXPECT_EQ(join(state, "s", between(1, 1)), Action::GracefulExit);
}

TEST(Decide, RanksThatCannotBeMakeNoWholeRound) {
  State state = sealed({"a", "b"});
  EXPECT_TRUE(is_whole(state));
  for (auto& [id, rank] : state.participants) rank = 1;
  EXPECT_FALSE(is_whole(state));
  state.participants[node("a")] = -1;
  EXPECT_FALSE(is_whole(state));
}

TEST(Decide, ANodeThatAStrangerPutIntoEveryListIsInOne) {
  State state = sealed({"a", "b"});
  for (const char* name : {"a", "w"}) {
    state.wait_list.insert(node(name));
    state.redundancy_list.insert(node(name));
  }
  state = with_invariants(std::move(state));
  EXPECT_EQ(state.participants.size(), 2u);
  EXPECT_EQ(state.wait_list, std::set{node("w")});
  EXPECT_TRUE(state.redundancy_list.empty());
}

TEST(Decide, ASpareWaitsWithoutLimitWhileTheRoundIsFull) {
  State state = apply(sealed({"a"}), Action::AddToRedundancyList, actor("s"), between(1, 1));
  EXPECT_EQ(join(state, "s", between(1, 1)), Action::Sync);
  EXPECT_EQ(join(state, "s", between(1, 1), kLate), Action::Sync);
  EXPECT_EQ(join(state, "s", between(1, 1), kDue), Action::KeepAlive);
  EXPECT_EQ(join(state, "s", between(1, 2)), Action::RemoveFromRedundancyList);
}

TEST(Decide, AMemberOfASealedRoundHasFinishedEvenLate) {
  EXPECT_EQ(join(sealed({"a", "b"}), "a", between(1, 2)), Action::Finish);
  EXPECT_EQ(join(sealed({"a", "b"}), "a", between(1, 2), kLate), Action::Finish);
}

TEST(Decide, AMemberThatSeesTheSealTooLateDoesNotStartWithTheRest) {
  // b was sealed in, left again, and a has not looked in between.
  const State state =
      apply(sealed({"a", "b", "c"}), Action::RemoveFromParticipants, actor("b"), between(1, 3));
  EXPECT_FALSE(is_whole(state));
  EXPECT_EQ(join(state, "a", between(1, 3)), Action::RemoveFromParticipants);

  // Also when the last one left, so that the ranks alone look right.
  const State last =
      apply(sealed({"a", "b"}), Action::RemoveFromParticipants, actor("b"), between(1, 2));
  EXPECT_EQ(join(last, "a", between(1, 2)), Action::RemoveFromParticipants);

  // Whatever the seal says, a world whose ranks go beyond the number of members is not started.
  State forged = sealed({"a", "b"});
  forged.participants[node("b")] = 7;
  EXPECT_EQ(join(forged, "a", between(1, 2)), Action::RemoveFromParticipants);

  // A round that torchrun sealed says no size: then only a hole can be seen.
  State foreign = last;
  foreign.seal.reset();
  EXPECT_EQ(join(foreign, "a", between(1, 2)), Action::Finish);
  foreign = state;
  foreign.seal.reset();
  EXPECT_EQ(join(foreign, "c", between(1, 3)), Action::RemoveFromParticipants);
}

TEST(Decide, ALateNodeTakesItselfOffTheListsWhileTheRollbackPeriodLasts) {
  const Settings settings = between(2, 3);
  const State open = joined_by({"a"}, settings);
  const auto when = [](Duration now) { return Reading{.now = {now}, .give_up = {60s}}; };
  EXPECT_EQ(join(open, "a", settings, when(60s)), Action::Sync);  // Exactly at the limit: in time.
  EXPECT_EQ(join(open, "a", settings, when(60s + 1ns)), Action::RemoveFromParticipants);
  EXPECT_EQ(join(open, "a", settings, when(65s)), Action::RemoveFromParticipants);
  EXPECT_EQ(join(open, "a", settings, when(65s + 1ns)), Action::ErrorTimeout);
  EXPECT_EQ(join(open, "b", settings, when(61s)), Action::ErrorTimeout);

  const State waiting = apply(sealed({"a", "b"}), Action::AddToWaitList, actor("w"), between(2, 3));
  EXPECT_EQ(join(waiting, "w", settings, when(61s)), Action::RemoveFromWaitList);
  EXPECT_EQ(join(waiting, "w", settings, when(66s)), Action::ErrorTimeout);
}

TEST(Decide, WhoComesToASealedRoundWaitsOrIsASpare) {
  const State state = sealed({"a", "b"});
  EXPECT_EQ(join(state, "c", between(1, 3)), Action::AddToWaitList);
  EXPECT_EQ(join(state, "c", between(1, 2)), Action::AddToRedundancyList);
  const State waiting = apply(state, Action::AddToWaitList, actor("c"), between(1, 3));
  EXPECT_EQ(join(waiting, "c", between(1, 3)), Action::Sync);
  EXPECT_EQ(join(waiting, "c", between(1, 3), kDue), Action::KeepAlive);
  // No node waits for a round that turns out to be full: its members would meet again and again.
  EXPECT_EQ(join(waiting, "c", between(1, 2)), Action::AddToRedundancyList);
  const State spare = apply(waiting, Action::AddToRedundancyList, actor("c"), between(1, 2));
  EXPECT_TRUE(spare.wait_list.empty());
}

// One that was started with a larger maximum has let them in.
TEST(Decide, ARoundAboveTheMaximumIsNotSealed) {
  const State state = joined_by({"a", "b", "c"}, between(2, 4));
  Reading over = kInTime;
  over.last_call_over = true;
  EXPECT_EQ(join(state, "a", between(2, 4), over), Action::MarkComplete);
  EXPECT_EQ(join(state, "a", between(1, 2), over), Action::Sync);
}

TEST(Decide, TheRoundIsSealedWhenTheLastCallIsOver) {
  const Settings settings = between(2, 4);
  const State state = joined_by({"a", "b"}, settings);
  Reading over = kInTime;
  over.last_call_over = true;
  EXPECT_EQ(join(state, "a", settings), Action::Sync);
  EXPECT_EQ(join(state, "a", settings, over), Action::MarkComplete);
  EXPECT_EQ(join(joined_by({"a"}, settings), "a", settings, over), Action::Sync);
  State no_deadline = state;
  no_deadline.deadline.reset();
  EXPECT_EQ(join(no_deadline, "a", settings, over), Action::Sync);
}

TEST(Decide, ANodeThatWaitedJoinsTheOpenRound) {
  State state;
  state.wait_list.insert(node("w"));
  EXPECT_EQ(join(state, "w", between(1, 2)), Action::AddToParticipants);
  EXPECT_EQ(join(state, "n", between(1, 2)), Action::AddToParticipants);
}

TEST(Decide, ExitLeavesTheRoundAndNothingElse) {
  const auto exit = [](const State& state, const std::string& name, const Reading& reading) {
    return decide(Operation::Exit, state, node(name), between(1, 2), reading);
  };
  State state = joined_by({"a"}, between(1, 2));
  state.wait_list.insert(node("w"));
  EXPECT_EQ(exit(state, "a", kInTime), Action::RemoveFromParticipants);
  EXPECT_EQ(exit(state, "a", kLate), Action::ErrorTimeout);
  EXPECT_EQ(exit(state, "w", kInTime), Action::Finish);
  EXPECT_EQ(exit(state, "b", kLate), Action::Finish);
}

TEST(Decide, LeaveTakesANodeOffWhateverListItIsOn) {
  State state = joined_by({"a"}, between(1, 2));
  state.wait_list.insert(node("w"));
  state.redundancy_list.insert(node("s"));
  const auto leave = [&](const std::string& name, const Reading& reading = kInTime) {
    return decide(Operation::Leave, state, node(name), between(1, 2), reading);
  };
  EXPECT_EQ(leave("a"), Action::RemoveFromParticipants);
  EXPECT_EQ(leave("w"), Action::RemoveFromWaitList);
  EXPECT_EQ(leave("s"), Action::RemoveFromRedundancyList);
  EXPECT_EQ(leave("b"), Action::Finish);
  EXPECT_EQ(leave("a", kLate), Action::ErrorTimeout);
}

TEST(Decide, ClosingTwiceIsFine) {
  State state;
  const auto close = [&](const Reading& reading) {
    return decide(Operation::Close, state, node("a"), between(1, 2), reading);
  };
  EXPECT_EQ(close(kInTime), Action::MarkClosed);
  EXPECT_EQ(close(kLate), Action::ErrorTimeout);
  state = apply(state, Action::MarkClosed, actor("a"), between(1, 2));
  EXPECT_EQ(close(kInTime), Action::Finish);
  EXPECT_EQ(close(kLate), Action::Finish);
}

TEST(Decide, AHeartbeatIsSentWhenItIsDue) {
  const auto beat = [](const Reading& reading) {
    return decide(Operation::KeepAlive, {}, node("a"), between(1, 2), reading);
  };
  EXPECT_EQ(beat(kInTime), Action::Finish);
  EXPECT_EQ(beat(kDue), Action::KeepAlive);
  Reading late = kLate;
  EXPECT_EQ(beat(late), Action::Finish);
  late.heartbeat_due = true;
  EXPECT_EQ(beat(late), Action::ErrorTimeout);
}

TEST(Apply, TheMinimumStartsTheLastCallAndTheMaximumSeals) {
  const Settings settings = between(2, 3);
  State state = joined_by({"b"}, settings);
  EXPECT_FALSE(state.deadline);
  state = apply(state, Action::AddToParticipants, actor("a", 5'000'000), settings);
  EXPECT_EQ(state.deadline, Stamp{35'000'000});
  EXPECT_FALSE(state.complete);
  state = apply(state, Action::AddToParticipants, actor("c", 6'000'000), settings);
  EXPECT_TRUE(state.complete);
  EXPECT_FALSE(state.deadline);
  EXPECT_EQ(state.participants.at(node("a")), 0);
  EXPECT_EQ(state.participants.at(node("b")), 1);
  EXPECT_EQ(state.participants.at(node("c")), 2);
  EXPECT_EQ(state.seal, (Seal{.round = 0, .world_size = 3}));
}

TEST(Apply, WhoWaitedAndFindsTheRoundFullIsASpare) {
  const Settings settings = between(1, 2);
  State state = joined_by({"a"}, settings);
  state.wait_list.insert(node("w"));
  state = apply(state, Action::AddToParticipants, actor("b"), settings);
  EXPECT_TRUE(state.complete);
  EXPECT_TRUE(state.wait_list.empty());
  EXPECT_TRUE(state.redundancy_list.contains(node("w")));
}

TEST(Apply, TheLastToLeaveASealedRoundOpensTheNext) {
  const Settings settings = between(1, 2);
  State state = joined_by({"a", "b"}, settings);
  state = apply(state, Action::RemoveFromParticipants, actor("a"), settings);
  EXPECT_TRUE(state.complete);
  EXPECT_EQ(state.round, 0);
  EXPECT_FALSE(state.last_heartbeats.contains(node("a")));
  state = apply(state, Action::RemoveFromParticipants, actor("b"), settings);
  EXPECT_FALSE(state.complete);
  EXPECT_EQ(state.round, 1);
}

TEST(Apply, FallingBelowTheMinimumEndsTheLastCall) {
  const Settings settings = between(2, 4);
  State state = joined_by({"a", "b", "c"}, settings);
  state = apply(state, Action::RemoveFromParticipants, actor("a"), settings);
  EXPECT_TRUE(state.deadline);
  state = apply(state, Action::RemoveFromParticipants, actor("b"), settings);
  EXPECT_FALSE(state.deadline);
}

TEST(Apply, AHeartbeatAlwaysChangesTheStamp) {
  State state = joined_by({"a"}, between(1, 2));
  const Stamp before = state.last_heartbeats.at(node("a"));
  state = apply(state, Action::KeepAlive, actor("a"), between(1, 2));  // The clock stood still.
  EXPECT_NE(state.last_heartbeats.at(node("a")), before);
}

TEST(Apply, TheSilentAreTakenOffEveryList) {
  const Settings settings = between(1, 2);
  State state = joined_by({"a", "b"}, settings);
  state = apply(state, Action::AddToRedundancyList, actor("s"), settings);
  state = without(state, {node("a"), node("s")}, settings);
  EXPECT_EQ(state.participants.size(), 1u);
  EXPECT_TRUE(state.redundancy_list.empty());
  EXPECT_EQ(state.last_heartbeats.size(), 1u);
  EXPECT_EQ(state.claims.size(), 1u);
  EXPECT_EQ(state.round, 0);
  state = without(state, {node("b")}, settings);
  EXPECT_EQ(state.round, 1);
  EXPECT_FALSE(state.complete);
}

TEST(Settings, ASilenceLimitBeyondAllMeasureIsForEver) {
  Settings settings = between(1, 1);
  settings.keep_alive_interval = kLongest;
  settings.keep_alive_attempts = 1'000'000;
  EXPECT_EQ(settings.silence_limit(), kLongest);
}

TEST(Settings, SaysWhatIsWrong) {
  EXPECT_TRUE(validate(between(1, 1)));
  const auto message = [](auto change) {
    Settings settings = between(1, 2);
    change(settings);
    const auto checked = validate(settings);
    return checked ? std::string("good") : checked.error().message;
  };
  EXPECT_NE(message([](Settings& s) { s.run_id.clear(); }).find("run id is empty"),
            std::string::npos);
  EXPECT_NE(message([](Settings& s) { s.min_nodes = 0; }).find("at least 1"), std::string::npos);
  EXPECT_NE(message([](Settings& s) { s.min_nodes = 3; }).find("below the smallest"),
            std::string::npos);
  EXPECT_EQ(message([](Settings& s) { s.join_timeout = -5s; }),
            "join_timeout is -5 s; it must be above zero");
  EXPECT_NE(message([](Settings& s) { s.keep_alive_attempts = 0; }).find("keep_alive_max_attempt"),
            std::string::npos);
}

}  // namespace
}  // namespace regroup::core::rendezvous
