// What nodes without a session do to a run that has a coordinator. Found by simulated runs.
#include <gtest/gtest.h>

#include "base/random.h"
#include "core/coordinator/coordinator_testing.h"

namespace regroup::core::coordinator {
namespace {

using rendezvous::Action;
using rendezvous::NodeId;
using rendezvous::State;

// A node without a session, as torchrun's: it makes no claim.
struct Other {
  ScriptedRun& run;
  NodeId id = {.address = "t", .pid = 1, .local_id = 0};

  void does(Action action) {
    const rendezvous::Settings settings{
        .run_id = "r", .min_nodes = run.rules.min_nodes, .max_nodes = run.rules.max_nodes};
    State state = apply(run.machine.state_for_others(run.now), action,
                        {.node = id, .claim = {}, .utc = run.now.utc}, settings);
    state.claims.erase(id);
    run.swap(std::move(state));
  }
  void lives_on(Duration time, const std::vector<std::string>& alive) {
    for (Duration left = time; left > Duration{}; left = left - 5s) {
      run.after(5s, alive);
      does(Action::KeepAlive);
    }
  }
};

// The coordinator once ignored its heartbeats, so that the run failed after the silence limit.
TEST(NodeWithoutASession, IsHeardInAClosedRunWhoseWorkersRunOn) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2});
  run.hello("a");
  run.join("a");
  Other other{run};
  other.does(Action::AddToParticipants);
  ASSERT_TRUE(run.last<Sealed>("a"));
  other.does(Action::MarkClosed);
  ASSERT_EQ(run.last<Stop>("a")->why, Stop::Why::Closed);
  other.lives_on(60s, {"a"});
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::Closed);

  run.after(20s, {"a"});  // Now it is silent.
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::RunFailed);
}

// It was once dropped after 15 s, whatever its run had agreed on.
TEST(NodeWithoutASession, IsLostByTheHeartbeatsThatItsRunAgreedOn) {
  ScriptedRun run(
      {.min_nodes = 2, .max_nodes = 2, .keep_alive_interval = 20s, .keep_alive_max_attempt = 2});
  run.hello("a");
  run.join("a");
  Other other{run};
  other.does(Action::AddToParticipants);
  ASSERT_TRUE(run.last<Sealed>("a"));
  run.after(19s, {"a"});
  other.does(Action::KeepAlive);
  run.after(39s, {"a"});
  EXPECT_FALSE(run.last<Stop>("a"));
  run.after(3s, {"a"});
  EXPECT_TRUE(run.last<Stop>("a"));
}

// Nobody tells the coordinator when the workers of such a node are done.
TEST(NodeWithoutASession, IsNotTakenToBeDone) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2});
  run.hello("a");
  run.join("a");
  Other other{run};
  other.does(Action::AddToParticipants);
  ASSERT_TRUE(run.last<Sealed>("a"));
  run.say("a", Done{.round = run.sealed.at("a").round});
  EXPECT_FALSE(run.machine.is_over());
}

// Once, what a spare waits for was sent again at every heartbeat of such a node.
TEST(NodeWithoutASession, TellsNobodyAnythingByItsHeartbeats) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2});
  run.hello("a");
  run.join("a");
  Other other{run};
  other.does(Action::AddToParticipants);
  run.start({"spare"});
  run.after(5s, {"a", "spare"});
  const std::size_t told = run.all<Progress>("spare").size();
  EXPECT_GT(told, 0u);
  other.lives_on(60s, {"a", "spare"});
  EXPECT_EQ(run.all<Progress>("spare").size(), told);
  EXPECT_FALSE(run.last<Stop>("a"));  // It was heard.
}

// The shared state has no groups: once, what such a node swapped in had none, and changed the order
// of ranks.
TEST(NodeWithoutASession, TakesNobodysGroupAway) {
  ScriptedRun run({.min_nodes = 3, .max_nodes = 3});
  for (const auto& [name, group] : {std::pair("a", "z"), {"b", "y"}}) {
    run.hello(name, {.group = group});
    run.join(name);
  }
  State state = run.machine.state_for_others(run.now);
  for (auto& [id, claim] : state.claims) claim.group.clear();
  run.swap(std::move(state));
  run.hello("c", {.group = "x"});
  run.join("c");
  EXPECT_EQ(run.last<Sealed>("c")->rank, 0);
  EXPECT_EQ(run.last<Sealed>("a")->rank, 2);
}

TEST(Coordinator, ANodeWithoutASessionIsInTheSameRound) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2});
  run.hello("a");
  run.join("a");
  rendezvous::State state = run.machine.state_for_others(run.now);
  EXPECT_TRUE(state.participants.contains(run.id("a")));
  const rendezvous::NodeId other{.address = "t", .pid = 1, .local_id = 0};
  const rendezvous::Settings settings{.run_id = "r", .min_nodes = 2, .max_nodes = 2};
  state = apply(std::move(state), rendezvous::Action::AddToParticipants,
                {.node = other, .claim = {}, .utc = run.now.utc}, settings);
  state.claims.erase(other);  // torchrun makes none.
  run.swap(std::move(state));
  ASSERT_TRUE(run.last<Sealed>("a"));
  EXPECT_FALSE(run.last<Sealed>("a")->by_session);
  EXPECT_EQ(run.last<Sealed>("a")->world_size, 2);
  // It leaves to join again, as torchrun does when a worker of its own fails.
  state = run.machine.state_for_others(run.now);
  state.participants.erase(other);
  run.swap(std::move(state));
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::Members);
}

TEST(Coordinator, ANodeWithoutASessionThatFallsSilentIsMissed) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 2, .last_call = 1s});
  run.hello("a");
  run.join("a");
  rendezvous::State state = run.machine.state_for_others(run.now);
  const rendezvous::NodeId other{.address = "t", .pid = 1, .local_id = 0};
  state = apply(std::move(state), rendezvous::Action::AddToParticipants,
                {.node = other, .claim = {}, .utc = run.now.utc},
                {.run_id = "r", .min_nodes = 1, .max_nodes = 2});
  run.swap(std::move(state));
  ASSERT_TRUE(run.last<Sealed>("a"));
  run.after(14s, {"a"});
  EXPECT_FALSE(run.last<Stop>("a"));
  run.after(3s, {"a"});
  EXPECT_TRUE(run.last<Stop>("a"));
}

TEST(Coordinator, ANodeWithoutASessionThatWaitsHasTimeToComeIn) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 3});
  run.start({"a", "b"});
  run.after(31s, {"a", "b"});
  ASSERT_EQ(run.last<Sealed>("b")->world_size, 2);
  const rendezvous::NodeId other{.address = "t", .pid = 1, .local_id = 0};
  const rendezvous::Settings settings{.run_id = "r", .min_nodes = 1, .max_nodes = 3};
  const auto other_does = [&](rendezvous::Action action) {
    rendezvous::State state = run.machine.state_for_others(run.now);
    state =
        apply(std::move(state), action, {.node = other, .claim = {}, .utc = run.now.utc}, settings);
    state.claims.erase(other);  // torchrun makes none.
    run.swap(std::move(state));
  };
  other_does(rendezvous::Action::AddToWaitList);
  ASSERT_EQ(run.last<Stop>("a")->why, Stop::Why::Members);
  run.join("a");
  run.join("b");
  run.after(1s, {"a", "b"});  // It looks about so often.
  EXPECT_FALSE(run.last<Sealed>("a"));
  other_does(rendezvous::Action::AddToParticipants);
  ASSERT_TRUE(run.last<Sealed>("a"));
  EXPECT_EQ(run.last<Sealed>("a")->world_size, 3);
}

TEST(Coordinator, AClosedStateEndsTheRunForItsSessions) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 1});
  run.start({"a"});
  rendezvous::State state = run.machine.state_for_others(run.now);
  state.closed = true;
  run.swap(std::move(state));
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::Closed);
  EXPECT_TRUE(run.machine.is_over());
}

// A swapped state is a stranger's word: one with two equal ranks once ended the coordinator.
TEST(NodeWithoutASession, MaySwapInWhateverCanBeRead) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    const std::vector<std::string> nodes{"a", "b", "c"};
    ScriptedRun run({.min_nodes = 1 + static_cast<std::int64_t>(random.below(3)), .max_nodes = 3});
    run.start(nodes);
    std::vector<NodeId> ids{{.address = "t", .pid = 1, .local_id = 0},
                            {.address = "u", .pid = 2, .local_id = 0}};
    for (const std::string& name : nodes) ids.push_back(run.id(name));
    for (int step = 0; step < 20; ++step) {
      State state = run.machine.state_for_others(run.now);
      if (random.one_in(2)) state.round += static_cast<std::int64_t>(random.below(4)) - 1;
      if (random.one_in(2)) state.complete = !state.complete;
      if (random.one_in(20)) state.closed = !state.closed;
      if (random.one_in(4)) state.deadline = rendezvous::Stamp{run.now.utc.micros - 1};
      for (const NodeId& id : ids) {
        if (random.one_in(3)) state.participants.erase(id);
        if (random.one_in(3)) state.participants[id] = static_cast<std::int64_t>(random.below(5));
        if (random.one_in(6)) state.wait_list.insert(id);
        if (random.one_in(6)) state.wait_list.erase(id);
        if (random.one_in(6)) state.redundancy_list.insert(id);
        if (random.one_in(6)) state.redundancy_list.erase(id);
        if (random.one_in(6)) state.claims.erase(id);
        if (random.one_in(6)) state.last_heartbeats.erase(id);
        if (random.one_in(3)) state.last_heartbeats[id] = run.now.utc;
      }
      run.swap(std::move(state));
      for (const std::string& name : nodes) {
        if (run.closed(name)) continue;
        if (random.one_in(3)) run.join(name);
        if (random.one_in(5)) run.say(name, Done{.round = run.sealed[name].round});
        if (random.one_in(8)) run.say(name, Failed{.round = run.sealed[name].round, .failure = {}});
        if (random.one_in(10)) run.hello_again(name);
      }
      if (random.one_in(3)) run.after(Duration(random.below(8) * 1s));
    }
  }
}

}  // namespace
}  // namespace regroup::core::coordinator
