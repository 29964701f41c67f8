#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/coordinator/coordinator_testing.h"

namespace regroup::core::coordinator {
namespace {

using run::NodeStatus;
using testing::HasSubstr;

RunRules pairs(std::int64_t min_nodes, std::int64_t max_nodes) {
  return {.min_nodes = min_nodes,
          .max_nodes = max_nodes,
          .last_call = 10s,
          .max_restarts = 1000,
          .segment = 2,
          .reconnect_grace = 0ms};
}

// A node's group is the first letter of its name.
struct GroupedRun : ScriptedRun {
  using ScriptedRun::ScriptedRun;

  void arrive(const std::vector<std::string>& nodes) {
    for (const std::string& name : nodes) {
      hello(name, {.group = name.substr(0, 1)});
      join(name);
    }
  }
  bool is_in(const std::string& name) { return last<Sealed>(name).has_value(); }
  std::string waits(const std::string& name) {
    after(1100ms, {name});
    const auto progress = last<Progress>(name);
    return progress ? progress->text : "";
  }
  std::string ranks(const std::vector<std::string>& nodes) {
    std::map<std::int64_t, std::string> by_rank;
    for (const std::string& name : nodes)
      if (const auto found = last<Sealed>(name)) by_rank[found->rank] = name;
    std::string text;
    for (const auto& [rank, name] : by_rank) text += (text.empty() ? "" : " ") + name;
    return text;
  }
};

TEST(Segments, OnlyWholeGroupsAreSealed) {
  GroupedRun run(pairs(4, 4));
  run.arrive({"a1", "b1", "c1", "a2"});
  EXPECT_FALSE(run.is_in("a1"));
  EXPECT_EQ(
      run.waits("c1"),
      "round 0: 2 of 4 nodes joined; this node waits for its group: 1 of 2 nodes of group c here");
  EXPECT_FALSE(run.last<Progress>("c1")->spare);
  EXPECT_EQ(run.waits("a1"), "round 0: 2 of 4 nodes joined");
  EXPECT_THAT(run.machine.status(run.now).awaited,
              HasSubstr("; not whole: b (1 of 2), c (1 of 2)"));
  EXPECT_EQ(run.machine.status(run.now).nodes.back().place, NodeStatus::Place::Waiting);
  run.arrive({"b2"});
  EXPECT_EQ(run.ranks({"a1", "a2", "b1", "b2", "c1"}), "a1 a2 b1 b2");
  EXPECT_FALSE(run.is_in("c1"));
  run.after(2s, {"a1", "a2", "b1", "b2", "c1"});
  EXPECT_TRUE(run.last<Progress>("c1")->spare);
}

TEST(Segments, AGroupThatDoesNotFitIsSpare) {
  GroupedRun run(pairs(2, 4));
  run.arrive({"a1", "a2", "a3", "b1", "b2", "a4"});
  EXPECT_EQ(run.ranks({"a1", "a2", "a3", "a4", "b1", "b2"}), "a1 a2 b1 b2");
  EXPECT_FALSE(run.last<Stop>("a1"));
  EXPECT_THAT(run.waits("a3"), HasSubstr("is full with 4 nodes; this node is a spare"));
}

TEST(Segments, ALastCallSealsWhatIsWhole) {
  GroupedRun run(pairs(2, 6));
  run.arrive({"a1", "b1", "a2", "c1"});
  run.after(11s, {"a1", "a2", "b1", "c1"});
  EXPECT_EQ(run.ranks({"a1", "a2", "b1", "c1"}), "a1 a2");
  // One node alone does not stop the round.
  run.arrive({"d1"});
  EXPECT_FALSE(run.last<Stop>("a1"));
  EXPECT_THAT(run.waits("d1"), HasSubstr("round 0 runs with 2 nodes; this node waits for its "
                                         "group: 1 of 2 nodes of group d here"));
  // A whole group does.
  run.arrive({"c2"});
  EXPECT_THAT(run.last<Stop>("a1")->text, HasSubstr("2 nodes want to come in"));
  run.join("a1");
  run.join("a2");
  EXPECT_EQ(run.ranks({"a1", "a2", "b1", "c1", "c2", "d1"}), "a1 a2 c1 c2");
}

TEST(Segments, WithALostNodeItsGroupIsOut) {
  GroupedRun run(pairs(2, 4));
  run.arrive({"a1", "a2", "b1", "b2"});
  run.close("b2");
  for (const std::string name : {"a1", "a2", "b1"}) EXPECT_TRUE(run.last<Stop>(name));
  for (const std::string name : {"a1", "b1", "a2"}) run.join(name);
  EXPECT_EQ(run.ranks({"a1", "a2", "b1"}), "a1 a2");
  // Another node of the group makes it whole again.
  run.arrive({"b9"});
  EXPECT_TRUE(run.last<Stop>("a1"));
  for (const std::string name : {"a1", "a2"}) run.join(name);
  EXPECT_EQ(run.ranks({"a1", "a2", "b1", "b9"}), "a1 a2 b1 b9");
}

TEST(Segments, ASpareOfTheGroupTakesTheHole) {
  GroupedRun run(pairs(4, 4));
  run.arrive({"a1", "a2", "b1", "b2", "a3", "b3"});
  EXPECT_EQ(run.ranks({"a1", "a2", "b1", "b2"}), "a1 a2 b1 b2");
  run.close("a1");
  for (const std::string name : {"b2", "a2", "b1"}) run.join(name);
  EXPECT_EQ(run.ranks({"a2", "a3", "b1", "b2", "b3"}), "a3 a2 b1 b2");
}

TEST(Segments, AnotherGroupTakesThePlaceOfOneThatIsBroken) {
  GroupedRun run(pairs(4, 4));
  run.arrive({"b1", "b2", "c1", "c2", "a1", "a2"});
  EXPECT_EQ(run.ranks({"a1", "a2", "b1", "b2", "c1", "c2"}), "b1 b2 c1 c2");
  run.close("b2");
  for (const std::string name : {"b1", "c1", "c2"}) run.join(name);
  EXPECT_EQ(run.ranks({"a1", "a2", "b1", "c1", "c2"}), "a1 a2 c1 c2");
  EXPECT_FALSE(run.is_in("b1"));
}

TEST(Segments, OneLostBeforeTheSealTakesItsGroupOutOfTheRound) {
  GroupedRun run(pairs(4, 6));
  run.arrive({"a1", "a2", "b1", "b2"});
  run.close("b1");
  run.after(11s, {"a1", "a2", "b2"});
  EXPECT_FALSE(run.is_in("a1"));
  EXPECT_THAT(run.waits("b2"), HasSubstr("1 of 2 nodes of group b here"));
  run.arrive({"b3"});
  run.after(11s, {"a1", "a2", "b2", "b3"});
  EXPECT_EQ(run.ranks({"a1", "a2", "b2", "b3"}), "a1 a2 b2 b3");
}

// A member and a spare of its group come before a group of spares that has waited longer.
TEST(Segments, AMemberIsNotSentAwayForAGroupOfSpares) {
  GroupedRun run(pairs(4, 4));
  run.arrive({"a1", "a2", "b1", "b2", "c1", "c2", "b3"});
  run.close("b2");
  for (const std::string name : {"a1", "a2", "b1"}) run.join(name);
  EXPECT_EQ(run.ranks({"a1", "a2", "b1", "b3", "c1", "c2"}), "a1 a2 b1 b3");
}

// A node that joins twice leaves the round in between, and its group is broken for that time.
TEST(Segments, AJoinThatIsSaidTwiceDoesNotLeaveHalfAGroup) {
  GroupedRun run(pairs(4, 6));
  run.arrive({"a1", "a2"});
  run.join("a1");
  run.arrive({"b1", "b2"});
  run.after(11s, {"a1", "a2", "b1", "b2"});
  EXPECT_EQ(run.ranks({"a1", "a2", "b1", "b2"}), "a1 a2 b1 b2");
}

TEST(Segments, SparesAreNotNeededWhenTheRunHasSucceeded) {
  GroupedRun run(pairs(2, 2));
  run.arrive({"a1", "a2", "b1"});
  for (const std::string name : {"a1", "a2"}) run.say(name, Done{.round = 0});
  EXPECT_TRUE(run.last<Over>("b1"));
  EXPECT_TRUE(run.last<Progress>("b1")->spare);
}

TEST(Segments, WhoIsInNoGroupIsNotLetIn) {
  GroupedRun run(pairs(2, 2));
  run.hello("x");
  EXPECT_THAT(run.last<Refused>("x")->why, HasSubstr("--topology-key"));
  EXPECT_TRUE(run.last<Refused>("x")->lasting);
  EXPECT_TRUE(run.closed("x"));
  run.arrive({"a1", "a2"});
  EXPECT_TRUE(run.is_in("a1"));
}

TEST(Segments, WhoWantsOtherSegmentsIsNotLetIn) {
  GroupedRun run(pairs(2, 4));
  run.arrive({"a1"});
  run.rules.segment = 4;
  run.hello("a2", {.group = "a"});
  EXPECT_EQ(run.last<Refused>("a2")->why,
            "this node was started with --segment 4, and this run has 2");
  GroupedRun without({.min_nodes = 2, .max_nodes = 2});
  without.rules.segment = 2;
  without.hello("a1", {.group = "a"});
  EXPECT_THAT(without.last<Refused>("a1")->why, HasSubstr("was begun without it"));
}

TEST(Segments, WhoJoinsAgainByItselfStopsTheRound) {
  GroupedRun run(pairs(2, 4));
  run.arrive({"a1", "a2", "b1", "b2"});
  run.join("b1");
  EXPECT_EQ(run.last<Stop>("a1")->text, "b1 joins again");
  for (const std::string name : {"a1", "a2", "b2"}) run.join(name);
  EXPECT_EQ(run.ranks({"a1", "a2", "b1", "b2"}), "a1 a2 b1 b2");
}

// Of a round from before our time one member runs on, and the others have left it: alone they make
// no whole group, and would be its spares for ever.
TEST(Segments, ARoundThatTheOthersHaveLeftDoesNotRunOnAfterARestart) {
  GroupedRun run(pairs(2, 2));
  run.hello("a1",
            {.running = Running{.place = {.round = 3, .rank = 0, .world_size = 2}}, .group = "a"});
  run.hello("a2", {.held = rendezvous::HeldRank{.round = 3, .rank = 1, .world_size = 2},
                   .again = true,
                   .group = "a"});
  run.join("a2");
  run.after(6s, {"a1", "a2"});
  EXPECT_EQ(run.last<Stop>("a1")->text, "others of the round have left it");
  run.join("a1");
  EXPECT_EQ(run.ranks({"a1", "a2"}), "a1 a2");
}

// The same, but the other one leaves it while its members have time to come back.
TEST(Segments, ARoundThatIsLeftMeanwhileDoesNotRunOnAfterARestart) {
  GroupedRun run(pairs(2, 2));
  for (const std::int64_t rank : {0, 1})
    run.hello(
        rank == 0 ? "a1" : "a2",
        {.running = Running{.place = {.round = 3, .rank = rank, .world_size = 2}}, .group = "a"});
  run.join("a2");
  run.after(6s, {"a1", "a2"});
  ASSERT_TRUE(run.last<Stop>("a1"));
  run.join("a1");
  EXPECT_EQ(run.ranks({"a1", "a2"}), "a1 a2");
}

// Nodes come, go, fail and join again at random; every round that is sealed consists of whole
// groups.
TEST(Segments, WhateverIsSealedIsWhole) {
  std::int64_t rounds = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::uint64_t dice = seed;
    const auto roll = [&dice](unsigned sides) {
      dice = dice * 6364136223846793005U + 1442695040888963407U;
      return static_cast<unsigned>((dice >> 33) % sides);
    };
    RunRules rules = pairs(0, 0);
    rules.segment = 1 + roll(3);
    rules.min_nodes = rules.segment * (1 + roll(2));
    rules.max_nodes = rules.min_nodes + rules.segment * roll(3);
    GroupedRun run(rules);
    std::set<std::string> alive;
    std::int64_t last_round = -1;
    int arrivals = 0;
    for (int step = 0; step < 200; ++step) {
      const unsigned what = roll(10);
      if (what < 4 && alive.size() < 12) {
        const std::string name =
            std::string(1, static_cast<char>('a' + roll(3))) + std::to_string(++arrivals);
        run.arrive({name});
        alive.insert(name);
      } else if (what < 6 && !alive.empty()) {
        const std::string name =
            *std::next(alive.begin(), roll(static_cast<unsigned>(alive.size())));
        run.close(name);
        alive.erase(name);
      } else if (what < 7 && !alive.empty()) {
        const std::string name =
            *std::next(alive.begin(), roll(static_cast<unsigned>(alive.size())));
        if (run.is_in(name) && !run.last<Stop>(name)) run.fail(name, "failed");
      } else {
        run.after(std::chrono::seconds(roll(12)), {alive.begin(), alive.end()});
      }
      for (const std::string& name : alive)
        if ((run.last<Stop>(name) && roll(2) == 0) || roll(100) == 0) run.join(name);

      const auto& state = run.machine.state();
      ASSERT_FALSE(state.closed);
      if (state.complete && state.round > last_round) {
        last_round = state.round;
        ++rounds;
      }
      if (!state.complete || !state.seal ||
          state.seal->world_size != static_cast<std::int64_t>(state.participants.size()))
        continue;  // Open, or being left.
      std::map<std::int64_t, std::string> of_block;
      for (const auto& [id, rank] : state.participants) {
        const std::string group = id.address.substr(0, 1);
        const auto [found, is_new] = of_block.try_emplace(rank / rules.segment, group);
        ASSERT_EQ(found->second, group) << "rank " << rank << " in step " << step;
      }
      ASSERT_EQ(state.participants.size() % static_cast<std::size_t>(rules.segment), 0u);
      ASSERT_GE(static_cast<std::int64_t>(state.participants.size()), rules.min_nodes);
      ASSERT_LE(static_cast<std::int64_t>(state.participants.size()), rules.max_nodes);
    }
    // In the end every node of a whole group is in, as far as there is room.
    std::map<char, std::int64_t> count;
    for (const std::string& name : alive) ++count[name.front()];
    std::int64_t expected = 0;
    for (const auto& [group, number] : count) expected += number - number % rules.segment;
    expected = std::min(expected, rules.max_nodes);
    for (int turn = 0; turn < 5; ++turn) {
      for (const std::string& name : alive)
        if (run.last<Stop>(name)) run.join(name);
      run.after(11s, {alive.begin(), alive.end()});
    }
    std::int64_t in = 0;
    for (const std::string& name : alive) in += run.is_in(name) && !run.last<Stop>(name) ? 1 : 0;
    EXPECT_EQ(in, expected >= rules.min_nodes ? expected : 0);
  }
  EXPECT_GT(rounds, 300);
}

}  // namespace
}  // namespace regroup::core::coordinator
