// What spares are told. Found by simulated runs.
#include <gtest/gtest.h>

#include "core/coordinator/coordinator_testing.h"

namespace regroup::core::coordinator {
namespace {

// Once, a lost message was not repeated: the node did not know that it was a spare, and gave up its
// join.
TEST(Spare, HearsAgainThatItIsOneIfTheWordWasLost) {
  ScriptedRun run({.min_nodes = 1, .max_nodes = 1});
  run.start({"a"});
  run.start({"spare"});
  run.after(2s, {"a", "spare"});
  ASSERT_TRUE(run.last<Progress>("spare"));

  run.inbox["spare"].clear();  // The message was lost.
  run.hello("spare");
  run.say("spare",
          Join{.number = run.joined["spare"], .bootstrap = {.address = "spare", .port = 4711}});
  run.after(2s, {"a", "spare"});
  ASSERT_TRUE(run.last<Progress>("spare"));
  EXPECT_TRUE(run.last<Progress>("spare")->spare);
}

}  // namespace
}  // namespace regroup::core::coordinator
