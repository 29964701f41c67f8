// Nodes agree through the coordinator whether their round hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/coordinator/coordinator_testing.h"

namespace regroup::core::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr hang::Votes kOneSuspect{.suspects = 1};

struct HangingRun : ScriptedRun {
  HangingRun() : ScriptedRun({.min_nodes = 2, .max_nodes = 2, .max_restarts = 3}) {
    start({"a", "b"});
  }
  void stall(const std::string& name) {
    say(name, Stalled{.round = sealed.at(name).round, .votes = kOneSuspect});
  }
  // At as many looks as it takes after the end of another node.
  void keep_stalling(const std::string& name) {
    for (int look = 0; look < hang::kLooksAfterAnEnd; ++look) stall(name);
  }
  void be_done(const std::string& name) { say(name, Done{.round = sealed.at(name).round}); }
  void move_on(const std::string& name) { say(name, Stalled{.round = sealed.at(name).round}); }
  std::vector<bool> hangs(const std::string& name) {
    std::vector<bool> told;
    for (const Hangs& one : all<Hangs>(name)) told.push_back(one.all_say_so);
    return told;
  }
};

TEST(CoordinatedHang, IsToldToAllWhenAllAreStalled) {
  HangingRun run;
  run.stall("a");
  EXPECT_THAT(run.hangs("a"), IsEmpty());
  run.stall("b");
  EXPECT_THAT(run.hangs("a"), ElementsAre(true));
  EXPECT_THAT(run.hangs("b"), ElementsAre(true));
  run.move_on("a");
  EXPECT_THAT(run.hangs("b"), ElementsAre(true, false));
}

TEST(CoordinatedHang, IsToldAgainToANodeThatSaysAgainThatItIsStalled) {
  HangingRun run;
  run.stall("a");
  run.stall("b");
  run.close("a");
  run.hello_again("a");
  run.stall("a");
  EXPECT_THAT(run.hangs("a"), ElementsAre(true, true));
  EXPECT_THAT(run.hangs("b"), ElementsAre(true));
}

TEST(CoordinatedHang, NamesOneRankToAllOnceAllHaveSaidWhereTheyAre) {
  HangingRun run;
  run.stall("a");
  run.stall("b");
  const std::int64_t round = run.sealed.at("a").round;
  run.say("a", Where{.round = round, .ranks = {{.rank = 0, .at = {"in all_reduce", true}}}});
  EXPECT_FALSE(run.last<Blamed>("a"));
  run.say("b", Where{.round = round, .ranks = {{.rank = 1, .at = {"in read()", false}}}});
  ASSERT_TRUE(run.last<Blamed>("a"));
  EXPECT_EQ(run.last<Blamed>("a")->blame.rank, 1);
  EXPECT_EQ(run.last<Blamed>("b"), run.last<Blamed>("a"));
}

TEST(CoordinatedHang, CountsAgainstNobodyWhereNobodyIsNamed) {
  for (const bool is_named : {false, true}) {
    ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .max_restarts = 3, .node_strikes = 1});
    run.start({"a", "b"});
    const std::int64_t round = run.sealed.at("a").round;
    for (const char* node : {"a", "b"})
      run.say(node, Stalled{.round = round, .votes = kOneSuspect});
    run.say("a", Where{.round = round, .ranks = {{.rank = 0, .at = {"in futex()", false}}}});
    run.say("b", Where{.round = round, .ranks = {{.rank = 1, .at = {"in poll()", is_named}}}});
    ASSERT_TRUE(run.last<Blamed>("a"));
    EXPECT_EQ(run.last<Blamed>("a")->blame.rank.has_value(), is_named);
    run.say("a", Failed{.round = round, .failure = {.exit_code = -9, .text = "hangs"}});
    run.join("a");
    EXPECT_EQ(run.last<Refused>("a").has_value(), is_named) << "it is let in again";
  }
}

TEST(CoordinatedHang, ANodeThatIsDoneIsNotWaitedFor) {
  HangingRun run;
  run.stall("a");
  run.stall("b");
  run.be_done("b");
  // That b is done may be what the workers of a have waited for.
  EXPECT_THAT(run.hangs("a"), ElementsAre(true, false));
  run.keep_stalling("a");
  EXPECT_THAT(run.hangs("a"), ElementsAre(true, false, true));
  EXPECT_THAT(run.hangs("b"), ElementsAre(true)) << "It has no workers left to look at.";
  run.say("a", Where{.round = run.sealed.at("a").round,
                     .ranks = {{.rank = 0, .at = {"in all_reduce", true}}}});
  ASSERT_TRUE(run.last<Blamed>("a"));
  EXPECT_EQ(run.last<Blamed>("a")->blame.rank, 0);
}

TEST(CoordinatedHang, ANodeThatIsDoneBeforeAnyIsStalledIsNotWaitedForEither) {
  HangingRun run;
  run.be_done("b");
  run.keep_stalling("a");
  EXPECT_THAT(run.hangs("a"), ElementsAre(true));
}

TEST(CoordinatedHang, ANodeThatComesBackDoneIsNotWaitedFor) {
  HangingRun run;
  run.close("b");
  const Sealed& sealed = run.sealed.at("b");
  run.hello(
      "b",
      {.running = Running{
           .place = {.round = sealed.round, .rank = sealed.rank, .world_size = sealed.world_size},
           .done = true}});
  run.keep_stalling("a");
  EXPECT_THAT(run.hangs("a"), ElementsAre(true));
}

// A node that closes the run leaves the workers of the others alone, because they may be about to
// be done. If they are not, nobody but the council would ever notice.
TEST(CoordinatedHang, IsFoundInARunThatWasClosedMeanwhile) {
  HangingRun run;
  run.say("b", Leave{.close = true});
  run.keep_stalling("a");
  EXPECT_THAT(run.hangs("a"), ElementsAre(true));
  run.say("a", Where{.round = run.sealed.at("a").round,
                     .ranks = {{.rank = 0, .at = {"in read()", false}}}});
  ASSERT_TRUE(run.last<Blamed>("a"));
  run.fail("a", "rank 0 hangs");
  ASSERT_TRUE(run.last<Stop>("a"));
  EXPECT_EQ(run.last<Stop>("a")->why, Stop::Why::RunFailed);
}

// Found by the simulation of whole nodes, seed 14796: the first that came back made up the whole
// round, and its stall a hang.
TEST(CoordinatedHang, AfterARestartOfTheCoordinatorAllMembersAreStillAsked) {
  ScriptedRun run({.min_nodes = 2, .max_nodes = 2, .max_restarts = 3});
  const auto running = [](std::int64_t rank) {
    return Running{.place = {.round = 4, .rank = rank, .world_size = 2}};
  };
  const Stalled stalled{.round = 4, .votes = kOneSuspect};
  run.hello("a", {.running = running(0), .again = true});
  run.say("a", stalled);
  EXPECT_FALSE(run.last<Hangs>("a"));
  run.hello("b", {.running = running(1), .again = true});
  EXPECT_FALSE(run.last<Hangs>("a"));
  run.say("b", stalled);
  ASSERT_TRUE(run.last<Hangs>("a"));
  EXPECT_TRUE(run.last<Hangs>("a")->all_say_so);
}

// A closed run of three, of which one is done and gone. A coordinator that was started again knows
// neither; the workers of the other two run on because they were told that the run is closed.
TEST(CoordinatedHang, IsFoundInARoundThatTheCoordinatorKnowsInPartOnly) {
  ScriptedRun run({.min_nodes = 3, .max_nodes = 3, .heartbeat_limit = 3s});
  const auto running = [](std::int64_t rank) {
    return Running{.place = {.round = 0, .rank = rank, .world_size = 3}};
  };
  run.hello("b", {.running = running(1), .again = true});
  run.hello("c", {.running = running(2), .again = true});
  run.after(4s, {"b", "c"});
  ASSERT_TRUE(run.last<Stop>("b"));
  EXPECT_EQ(run.last<Stop>("b")->text, "a node of the round has not come back to the coordinator");
  for (int look = 0; look < hang::kLooksAfterAnEnd; ++look)
    for (const char* name : {"b", "c"}) run.say(name, Stalled{.round = 0, .votes = kOneSuspect});
  ASSERT_TRUE(run.last<Hangs>("b"));
  EXPECT_TRUE(run.last<Hangs>("b")->all_say_so);
  // One of them ends, as it is blamed; the other waits for it in vain.
  run.say("b", Leave{});
  ASSERT_TRUE(run.last<Hangs>("c"));
  EXPECT_FALSE(run.last<Hangs>("c")->all_say_so);
  for (int look = 0; look < hang::kLooksAfterAnEnd; ++look)
    run.say("c", Stalled{.round = 0, .votes = kOneSuspect});
  EXPECT_TRUE(run.last<Hangs>("c")->all_say_so);
}

TEST(CoordinatedHang, OfAnEarlierRoundNobodyIsHeard) {
  HangingRun run;
  const std::int64_t before = run.sealed.at("a").round;
  run.stall("a");
  run.fail("b", "rank 1 failed");
  run.join("a");
  run.join("b");
  run.say("a", Stalled{.round = before, .votes = kOneSuspect});
  run.stall("b");
  EXPECT_THAT(run.hangs("b"), IsEmpty());
  run.stall("a");
  EXPECT_THAT(run.hangs("b"), ElementsAre(true));
}

}  // namespace
}  // namespace regroup::core::coordinator
