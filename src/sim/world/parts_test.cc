// The small parts of the world, each for itself.
#include <gtest/gtest.h>

#include "sim/world/codec.h"
#include "sim/world/event_queue.h"
#include "sim/world/node_clock.h"
#include "sim/world/options.h"
#include "sim/world/plan.h"
#include "sim/world/store.h"
#include "sim/world/torchrun_executor.h"

namespace regroup::sim {
namespace {

using core::rendezvous::Done;
using core::rendezvous::NodeId;
using core::rendezvous::Now;
using core::rendezvous::Operation;
using core::rendezvous::Outcome;
using core::rendezvous::Rest;
using core::rendezvous::Settings;
using core::rendezvous::Snapshot;
using core::rendezvous::Stamp;
using core::rendezvous::State;
using core::rendezvous::Step;
using core::rendezvous::Swap;

TEST(EventQueue, GivesEventsByTimeAndThenInTheOrderOfPlanning) {
  EventQueue events;
  events.plan({.at = {2s}, .node = 1});
  events.plan({.at = {1s}, .node = 2});
  events.plan({.at = {1s}, .node = 3});
  EXPECT_EQ(events.next().node, 2);
  EXPECT_EQ(events.next().node, 3);
  EXPECT_EQ(events.now(), Instant{1s});
  EXPECT_EQ(events.next().node, 1);
  EXPECT_TRUE(events.empty());
}

TEST(NodeClock, NeverWakesANodeBeforeItsOwnClockSaysSo) {
  for (const std::int64_t drift : {-500, -1, 0, 20, 500}) {
    const NodeClock clock(777s, -3min, drift);
    for (Duration own : {Duration(777s), Duration(777s + 1ns), Duration(800s), Duration(5000s)}) {
      const Instant at = clock.world_time_of(Instant{own});
      EXPECT_GE(clock.read(at).instant, Instant{own});
      EXPECT_LE(clock.read(at).instant, Instant{own} + 1us);
    }
  }
}

TEST(NodeClock, SettingTheWallClockLeavesTheOtherAlone) {
  NodeClock clock(10s, 0s, 0);
  const Now before = clock.read({5s});
  clock.set_wall_clock(-30s);
  EXPECT_EQ(clock.read({5s}).instant, before.instant);
  EXPECT_EQ(clock.read({5s}).utc.micros, before.utc.micros - 30'000'000);
}

TEST(SimOptions, RangesAndLevelsAreReadOrRefused) {
  EXPECT_EQ(parse_seeds("3..70")->last, 70u);
  EXPECT_EQ(parse_seeds("3")->first, 3u);
  for (const char* wrong : {"", "7..3", "a..b", "1..", "..2", "1...3", "-1..2"})
    EXPECT_FALSE(parse_seeds(wrong)) << wrong;
  EXPECT_EQ(*parse_faults("light"), FaultLevel::Light);
  EXPECT_FALSE(parse_faults("some"));
}

TEST(SimOptions, TheReplayLineNamesAllThatWasChosen) {
  EXPECT_EQ(replay_line({.seed = 7}), "regroup_sim --seed=7 --trace");
  EXPECT_EQ(
      replay_line(
          {.seed = 7, .nodes = 3, .steps = 900, .faults = FaultLevel::Heavy, .torchrun_nodes = 1}),
      "regroup_sim --seed=7 --nodes=3 --steps=900 --faults=heavy --torchrun-nodes=1 --trace");
}

TEST(SimPlan, AllKindsOfRunsOccur) {
  int spares = 0, never_full = 0, fixed = 0, mixed = 0, closing = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Plan plan = make_plan({.seed = seed});
    const auto nodes = static_cast<std::int64_t>(plan.nodes.size());
    EXPECT_TRUE(core::rendezvous::validate(plan.settings));
    spares += static_cast<int>(nodes > plan.settings.max_nodes);
    never_full += static_cast<int>(nodes < plan.settings.max_nodes);
    fixed += static_cast<int>(plan.settings.min_nodes == plan.settings.max_nodes);
    mixed += static_cast<int>(plan.has_torchrun);
    closing += static_cast<int>(plan.closes);
  }
  for (const int count : {spares, never_full, fixed, mixed, closing}) EXPECT_GT(count, 20);
}

Request swap(std::string expected, std::string desired) {
  return {.ask = Ask::Swap, .expected = std::move(expected), .desired = std::move(desired)};
}

TEST(SimStore, SwapsAsPyTorchDoes) {
  Store store;
  std::optional<Change> change;
  EXPECT_FALSE(store.apply(swap("something", kNoState), false, change).won);
  EXPECT_EQ(store.value(), nullptr);  // A missing key equals only the empty value.
  EXPECT_TRUE(store.apply({.ask = Ask::MakeKey, .desired = kNoState}, false, change).won);
  EXPECT_FALSE(store.value()->state);

  State state;
  state.closed = true;
  const std::string bytes = encoded(state);
  EXPECT_TRUE(store.apply(swap(kNoState, bytes), false, change).won);
  EXPECT_EQ(store.value()->state, state);
  change.reset();
  EXPECT_FALSE(store.apply(swap(kNoState, encoded(State{})), false, change).won);
  EXPECT_FALSE(change);
  EXPECT_EQ(store.value()->bytes, bytes);
  // The answer is what is there: a node that asked for just that has won, even the second time.
  EXPECT_TRUE(store.apply(swap(kNoState, bytes), false, change).won);
  EXPECT_FALSE(change);
}

const NodeId kA{.address = "a", .pid = 1, .local_id = 0};
const NodeId kB{.address = "b", .pid = 1, .local_id = 0};

Now at(Duration time) { return {.instant = {time}, .utc = {time.count() / 1000}}; }

State sealed_with(Stamp stamp) {
  State state;
  state.complete = true;
  state.participants = {{kA, 0}, {kB, 1}};
  state.last_heartbeats = {{kA, stamp}, {kB, stamp}};
  return state;
}

TEST(TorchrunNode, JudgesByItsWallClock) {
  Settings settings{.run_id = "r", .min_nodes = 1, .max_nodes = 3};
  TorchrunExecutor node(settings, {.address = "c", .pid = 1, .local_id = 0});
  node.begin(Operation::Look, 5s, at(1000s));
  node.on_read(Snapshot{sealed_with(at(985s).utc), "t"}, at(1000s));
  EXPECT_EQ(node.state().participants.size(), 2u);  // Exactly at the limit is still in time.
  node.begin(Operation::Look, 5s, at(1002s));
  node.on_read(Snapshot{sealed_with(at(986s).utc), "t"}, at(1002s));
  EXPECT_EQ(node.state().round, 1);
  EXPECT_FALSE(node.state().complete);
}

TEST(TorchrunNode, StartsWithWhateverIsLeftOfARound) {
  TorchrunExecutor node({.run_id = "r", .min_nodes = 2, .max_nodes = 2}, kA);
  node.begin(Operation::Join, 60s, at(10s));
  State state = sealed_with(at(10s).utc);
  state.participants.erase(kB);
  state.last_heartbeats.erase(kB);
  const Step step = node.on_read(Snapshot{state, "t"}, at(10s));
  EXPECT_EQ(std::get<Done>(step.what).outcome, Outcome::Finished);
  EXPECT_EQ(node.joined().participants.size(), 1u);
}

TEST(TorchrunNode, LooksOnceASecondAndWritesNoClaim) {
  TorchrunExecutor node({.run_id = "r", .min_nodes = 2, .max_nodes = 2}, kA);
  node.begin(Operation::Join, 60s, at(10s));
  Step step = node.on_read(std::nullopt, at(10s));
  const State written = std::get<Swap>(step.what).state;
  EXPECT_TRUE(written.participants.contains(kA));
  EXPECT_TRUE(written.claims.empty());
  step = node.on_won("t", at(10s));
  EXPECT_EQ(std::get<Rest>(step.what).until, Instant{11s});
  EXPECT_EQ(std::get<Rest>(step.what).phase, "");
  EXPECT_EQ(std::get<Done>(node.on_unreachable(at(12s)).what).outcome, Outcome::Unreachable);
}

}  // namespace
}  // namespace regroup::sim
