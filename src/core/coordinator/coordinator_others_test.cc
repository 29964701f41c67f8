// What nodes without a session do to a run that has a coordinator. Found by simulated runs.
#include <gtest/gtest.h>

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

// Its heartbeats were not taken in any more, and after the silence limit the run failed for it.
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

// What a spare waits for was told again at every heartbeat of such a node.
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

// What nodes share has no groups: what it swapped in had none, and the ranks were in another order.
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

}  // namespace
}  // namespace regroup::core::coordinator
