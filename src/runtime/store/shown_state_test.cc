// What nodes without a session see of a run, and change in it: the state under its key in the store.
#include "runtime/coordinator/shown_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "core/rendezvous/decide.h"
#include "runtime/store/coordinator_host_testing.h"
#include "wire/rendezvous/rendezvous_keys.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;
using core::rendezvous::NodeId;
using core::rendezvous::State;
using testing::HasSubstr;

using ShownStateTest = CoordinatorHostTest;

const NodeId kStranger{.address = "t", .pid = 7, .local_id = 0};

// As a node without a session adds itself.
State with_stranger(State state, const RunRules& rules) {
  return core::rendezvous::apply(
      std::move(state), core::rendezvous::Action::AddToParticipants,
      {.node = kStranger, .claim = {}, .utc = {1'000'000}},
      {.run_id = "r", .min_nodes = rules.min_nodes, .max_nodes = rules.max_nodes});
}

TEST_F(ShownStateTest, AStoreClientSeesTheStateOfTheSessions) {
  auto [a, b] = sealed_pair();
  const auto client = store();
  // As torchrun makes the key, if it does not exist.
  const auto made = client->compare_set(wire::state_key("r"), "", wire::kNoState);
  const State state = decoded(*client->get(wire::state_key("r")));
  EXPECT_EQ(*made, encoded(state));
  EXPECT_TRUE(state.complete);
  ASSERT_EQ(state.participants.size(), 2u);
  EXPECT_EQ(state.participants.at(b.id()), 1);
  EXPECT_EQ(client->check({wire::state_key("other")}), false);
}

TEST_F(ShownStateTest, AStoreClientCanCloseTheRun) {
  auto [a, b] = sealed_pair();
  const auto client = store();
  const std::string seen = *client->get(wire::state_key("r"));
  State state = decoded(seen);
  state.closed = true;
  EXPECT_EQ(client->compare_set(wire::state_key("r"), seen, encoded(state)), encoded(state));
  EXPECT_EQ(a.expect<Stop>().why, Stop::Why::Closed);
  EXPECT_EQ(b.expect<Stop>().why, Stop::Why::Closed);
  EXPECT_TRUE(decoded(*client->get(wire::state_key("r"))).closed);
}

TEST_F(ShownStateTest, ANodeWithoutASessionJoinsThroughTheState) {
  Agent a = joining("a");
  const auto client = store();
  const std::string seen = *client->get(wire::state_key("r"));
  const State mine = with_stranger(decoded(seen), kTwo);
  EXPECT_EQ(client->compare_set(wire::state_key("r"), "stale", encoded(mine)), seen);
  EXPECT_EQ(client->compare_set(wire::state_key("r"), seen, encoded(mine)), encoded(mine));
  const auto sealed = a.expect<Sealed>();
  EXPECT_EQ(sealed.world_size, 2);
  EXPECT_FALSE(sealed.by_session);
  // It is told that the phase is over, for it may rest on that.
  EXPECT_TRUE(client->wait({wire::left_key("r", "0.open")}, 60s));
}

TEST_F(ShownStateTest, TheFirstHelloFindsTheStateOfNodesWithoutASession) {
  const auto client = store();
  ASSERT_TRUE(client->set(wire::state_key("r"), encoded(with_stranger({}, kTwo))));
  Agent a = joining("a");
  EXPECT_EQ(a.expect<Sealed>().world_size, 2);
  EXPECT_TRUE(client->wait({wire::left_key("r", "0.open")}, 60s));
  EXPECT_TRUE(decoded(*client->get(wire::state_key("r"))).participants.contains(kStranger));
}

// Where only whole groups are let in, a node without a session cannot say which group it is in.
class GroupedRuns : public CoordinatorHostTest {
 protected:
  Agent joining_group(const std::string& name) {
    Agent one = agent(name);
    one.add(Hello{.run_id = "r",
                  .node = one.id(),
                  .claim = {.name = name, .wish = {}, .held = {}, .group = "rack"},
                  .role = "default",
                  .rules = rules_})
        .join()
        .send();
    return one;
  }

  RunRules rules_{.min_nodes = 2, .max_nodes = 2, .segment = 2, .reconnect_grace = 0ms};
};

TEST_F(GroupedRuns, NobodyJoinsThroughTheState) {
  const auto client = store();
  Agent a = joining_group("a");
  EXPECT_EQ(a.expect<Welcome>().rules.segment, 2);
  const std::string seen = *client->get(wire::state_key("r"));
  EXPECT_TRUE(decoded(seen).closed);
  EXPECT_TRUE(decoded(seen).participants.empty());
  EXPECT_TRUE(client->compare_set(wire::state_key("r"), seen, encoded(with_stranger({}, rules_))));
  EXPECT_EQ(*client->get(wire::state_key("r")), seen);
  Agent b = joining_group("b");
  b.expect<Welcome>();
  EXPECT_EQ(a.expect<Sealed>().world_size, 2);
  EXPECT_TRUE(b.expect<Sealed>().by_session);
}

TEST_F(GroupedRuns, ARunOfNodesWithoutASessionIsLeftAlone) {
  const auto client = store();
  const std::string theirs = encoded(with_stranger({}, rules_));
  ASSERT_TRUE(client->set(wire::state_key("r"), theirs));
  Agent a = joining_group("a");
  EXPECT_THAT(a.expect<Refused>().why, HasSubstr("nodes without a session are in this run"));
  EXPECT_EQ(*client->get(wire::state_key("r")), theirs);
}

TEST_F(GroupedRuns, WhoBeginsADesertedOneAnewGoesOnCounting) {
  {
    Agent a = joining_group("a");
    Agent b = joining_group("b");
    a.expect<Welcome>();
    EXPECT_EQ(a.expect<Sealed>().round, 0);
    EXPECT_TRUE(decoded(*store()->get(wire::state_key("r"))).closed);  // A client reads it.
    a.add(Leave{}).send();
    b.add(Leave{}).send();
    EXPECT_TRUE(a.is_closed());
    b.is_closed();
  }
  rules_ = {.min_nodes = 1, .max_nodes = 1};
  Agent a = joining_group("a");
  EXPECT_EQ(a.expect<Welcome>().rules.segment, 0);
  EXPECT_EQ(a.expect<Sealed>().round, 1);
}

TEST_F(GroupedRuns, RulesThatCannotBeMetAreRefused) {
  rules_.max_nodes = 5;
  EXPECT_THAT(joining_group("a").expect<Refused>().why, HasSubstr("no multiples of --segment"));
  rules_ = {.min_nodes = 3, .max_nodes = 2};
  EXPECT_THAT(joining_group("b").expect<Refused>().why, HasSubstr("above the maximum"));
  rules_ = {.min_nodes = 2, .max_nodes = 2, .segment = 2};
  joining_group("c").expect<Welcome>();
}

TEST_F(ShownStateTest, NobodyIsToldOfPhasesWhoHasNotLooked) {
  auto [a, b] = sealed_pair();
  EXPECT_EQ(store()->num_keys(), 0);
}

TEST_F(ShownStateTest, AStateThatIsNoneIsIgnored) {
  auto [a, b] = sealed_pair();
  const auto client = store();
  const std::string good = *client->get(wire::state_key("r"));
  for (const std::string rubbish : {"rubbish", "", "Y2FuaW1hZGFt"}) {
    EXPECT_TRUE(client->set(wire::state_key("r"), rubbish));
    EXPECT_EQ(client->get(wire::state_key("r")), good);
  }
  EXPECT_EQ(client->delete_key(wire::state_key("r")), true);
  EXPECT_EQ(client->get(wire::state_key("r")), good);
  a.add(Ping{.number = 1}).send();
  EXPECT_EQ(a.expect<Pong>().number, 1u);
}

}  // namespace
}  // namespace regroup::runtime
