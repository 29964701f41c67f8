#include "core/rendezvous/describe.h"

#include <gtest/gtest.h>

#include "core/rendezvous/assign_ranks.h"
#include "core/rendezvous/rendezvous_testing.h"

namespace regroup::core::rendezvous {
namespace {

std::string line(const State& state, const Settings& settings, const std::string& self,
                 std::optional<Instant> last_call_end = {},
                 const std::vector<std::string>& expected = {}) {
  const NodeId id = node(self);
  const Wait wait{.state = state,
                  .self = id,
                  .settings = settings,
                  .now = at(10s),
                  .give_up = at(600s),
                  .last_call_end = last_call_end,
                  .expected = expected};
  return describe_progress(wait) + describe_limit(wait);
}

TEST(Describe, SaysWhatIsWaitedFor) {
  const Settings settings = between(3, 4);
  State state = joined_by({"n1", "n2"}, settings);
  state.round = 3;
  EXPECT_EQ(line(state, settings, "n1"),
            "round 3: 2 of 3..4 nodes joined; gives up in 9m50s (join_timeout)");
  EXPECT_EQ(line(state, settings, "n1", {}, {"n1", "n2", "n3", "n4"}),
            "round 3: 2 of 3..4 nodes joined; missing: n3, n4; gives up in 9m50s (join_timeout)");
  state = apply(state, Action::AddToParticipants, actor("n3"), settings);
  EXPECT_EQ(line(state, settings, "n1", at(22s)),
            "round 3: 3 of 3..4 nodes joined; last call ends in 12 s");
}

TEST(Describe, SaysWhyANodeIsNotIn) {
  State state = joined_by({"n1", "n2"}, between(1, 2));
  state.redundancy_list.insert(node("s"));
  EXPECT_EQ(
      line(state, between(1, 2), "s"),
      "round 0 is full with 2 nodes; this node is a spare and waits for one of them to leave");
  state.wait_list.insert(node("w"));
  EXPECT_EQ(line(state, between(1, 3), "w"),
            "round 0 runs with 2 nodes; 1 node waiting for the next; gives up in 9m50s "
            "(join_timeout)");
}

TEST(Describe, TheSameInAFewWords) {
  const Settings settings = between(2, 3);
  State state = joined_by({"n1"}, settings);
  const NodeId self = node("n1");
  const NodeId spare = node("s");
  const std::vector<std::string> nobody;
  const auto wait = [&](const NodeId& who, std::optional<Instant> last_call_end = {}) {
    return Wait{.state = state,
                .self = who,
                .settings = settings,
                .now = at(10s),
                .give_up = at(600s),
                .last_call_end = last_call_end,
                .expected = nobody};
  };
  EXPECT_EQ(describe_briefly(wait(self)), "waiting for nodes: 1 of 2..3 here");
  EXPECT_EQ(end_of_wait(wait(self)), at(600s));
  EXPECT_EQ(describe_briefly(wait(self, at(22s))), "last call for nodes: 1 of 2..3 here");
  EXPECT_EQ(end_of_wait(wait(self, at(22s))), at(22s));
  state.redundancy_list.insert(spare);
  EXPECT_EQ(describe_briefly(wait(spare)), "spare: waiting for one of 1 node to leave");
  EXPECT_EQ(end_of_wait(wait(spare)), std::nullopt);
  state.complete = true;
  EXPECT_EQ(describe_briefly(wait(self)), "waiting for the round after 0, which runs with 1 node");
}

TEST(AssignRanks, TheWorkedExample) {
  const auto assigned = assign_ranks(
      {{"ps", 0, 4}, {"trainer", 1, 1}, {"trainer", 2, 2}, {"trainer", 3, 3}, {"ps", 4, 5}});
  EXPECT_EQ(assigned,
            (std::vector<AssignedRanks>{
                {0, 15, 0, 9}, {4, 15, 0, 6}, {5, 15, 1, 6}, {7, 15, 3, 6}, {10, 15, 4, 9}}));
}

}  // namespace
}  // namespace regroup::core::rendezvous
