#include "runtime/rendezvous/rendezvous_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/bytes/base64.h"
#include "wire/rendezvous/rendezvous_state.h"

namespace regroup::runtime {
namespace {

using core::rendezvous::Claim;
using core::rendezvous::NodeId;
using core::rendezvous::Seal;
using core::rendezvous::Stamp;
using core::rendezvous::State;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kNow = 1'700'000'000'000'000;

NodeId node(const std::string& address, std::int64_t pid) {
  return {.address = address, .pid = pid, .local_id = 0};
}

Stamp ago(std::int64_t seconds) { return Stamp{kNow - seconds * 1'000'000}; }

// n1 and a torchrun node in round 3, n2 waits, n3 is a spare.
State sealed() {
  State state;
  state.round = 3;
  state.complete = true;
  state.participants = {{node("10.0.0.1", 11), 1}, {node("10.0.0.9", 99), 0}};
  state.seal = Seal{.round = 3, .world_size = 2};
  state.wait_list = {node("10.0.0.2", 22)};
  state.redundancy_list = {node("10.0.0.3", 33)};
  state.claims = {{node("10.0.0.1", 11), Claim{.name = "n1", .wish = 1, .held = {}}},
                  {node("10.0.0.2", 22), Claim{.name = "n2", .wish = {}, .held = {}}},
                  {node("10.0.0.3", 33), Claim{.name = "n3", .wish = {}, .held = {}}}};
  state.last_heartbeats = {{node("10.0.0.1", 11), ago(2)},
                           {node("10.0.0.9", 99), ago(70)},
                           {node("10.0.0.2", 22), ago(-300)}};
  return state;
}

std::string shown(const State& state) { return describe_run("job", state, Stamp{kNow}); }

std::shared_ptr<Store> holding(const std::string& text) {
  auto store = make_memory_store(1s);
  EXPECT_TRUE(store->set("torch.rendezvous.job", text));
  return store;
}

std::shared_ptr<Store> holding(const State& state) {
  return holding(wire::encode_base64(wire::encode_state(state)));
}

TEST(RendezvousView, ShowsEveryNodeWithItsPlaceAndItsLastHeartbeat) {
  EXPECT_EQ(shown(sealed()),
            "run 'job', round 3\n"
            "complete: the nodes have their ranks\n"
            "2 nodes (10.0.0.9, n1), 1 waiting, 1 spare\n"
            "  rank   node      address   pid  program                 last heartbeat\n"
            "  0      10.0.0.9  10.0.0.9  99   torchrun                1m10s ago\n"
            "  1      n1        10.0.0.1  11   regroup (wants rank 1)  2 s ago\n"
            "  waits  n2        10.0.0.2  22   regroup                 5m00s ahead of our clock\n"
            "  spare  n3        10.0.0.3  33   regroup                 never\n"
            "All times are by this machine's clock; those of the nodes may differ from it.\n");
}

TEST(RendezvousView, SaysWhatStageTheRunIsIn) {
  State state = sealed();
  state.participants.erase(node("10.0.0.9", 99));
  EXPECT_THAT(shown(state), HasSubstr("members have left"));
  state.closed = true;
  EXPECT_THAT(shown(state), HasSubstr("closed: the run is over"));
  EXPECT_THAT(shown({}), HasSubstr("open: nobody is in it"));
}

TEST(RendezvousView, SaysWhenTheLastCallEnds) {
  State state;
  state.participants = {{node("a", 1), 0}};
  EXPECT_THAT(shown(state), Not(HasSubstr("last call")));
  state.deadline = ago(-12);
  EXPECT_THAT(shown(state), HasSubstr("last call: ends in 12 s"));
  state.deadline = ago(5);
  EXPECT_THAT(shown(state), HasSubstr("last call: over since 5 s"));
}

TEST(RendezvousView, AnOpenRoundIsListedInTheOrderOfItsLikelyRanks) {
  State state;
  for (const char* name : {"n10", "n2", "n1"}) {
    state.participants[node(name, 1)] = 0;
    state.claims[node(name, 1)] = Claim{.name = name, .wish = {}, .held = {}};
  }
  EXPECT_EQ(describe_nodes(state), "3 nodes (n1, n2, n10), 0 waiting, 0 spares");
}

TEST(RendezvousView, ANameCannotCommandTheTerminal) {
  State state;
  state.participants = {{node("\x1b[2Jevil\n", 1), 0}};
  EXPECT_THAT(shown(state), Not(HasSubstr("\x1b")));
  EXPECT_THAT(shown(state), HasSubstr("\\x1b[2Jevil"));
}

TEST(RendezvousView, StampsFromTheEndOfTimeDoNoHarm) {
  State state = sealed();
  state.last_heartbeats[node("10.0.0.1", 11)] = Stamp{INT64_MIN};
  state.last_heartbeats[node("10.0.0.9", 99)] = Stamp{INT64_MAX};
  EXPECT_THAT(shown(state), HasSubstr("ahead of our clock"));
}

TEST(RendezvousView, ReadsWhatTheNodesShare) {
  const auto store = holding(sealed());
  const auto seen = look_at_run(*store, "job");
  ASSERT_TRUE(seen) << seen.error().message;
  EXPECT_EQ(*seen, sealed());
}

TEST(RendezvousView, ARunThatNobodyStartedIsToldAndNotCreated) {
  const auto store = make_memory_store(1s);
  for (const auto& error :
       {look_at_run(*store, "job").error(), close_run(store, "job", 1s).error()}) {
    EXPECT_EQ(error.kind, ErrorKind::Refused);
    EXPECT_THAT(error.message, HasSubstr("'job'"));
  }
  EXPECT_EQ(store->num_keys(), 0);
}

TEST(RendezvousView, ARunThatNobodyHasJoinedYetIsTold) {
  const auto store = holding("Y2FuaW1hZGFt");
  EXPECT_THAT(look_at_run(*store, "job").error().message, HasSubstr("no node has joined"));
  EXPECT_THAT(close_run(store, "job", 1s).error().message, HasSubstr("no node has joined"));
  EXPECT_EQ(store->get("torch.rendezvous.job"), "Y2FuaW1hZGFt");
}

TEST(RendezvousView, AStateThatCannotBeReadIsToldAndLeftAsItIs) {
  for (const std::string text : {"rubbish!", "cnViYmlzaA==", ""}) {
    const auto store = holding(text);
    EXPECT_EQ(look_at_run(*store, "job").error().kind, ErrorKind::Corrupt) << text;
    EXPECT_EQ(close_run(store, "job", 1s).error().kind, ErrorKind::Corrupt) << text;
    EXPECT_EQ(store->get("torch.rendezvous.job"), text);
  }
}

TEST(RendezvousView, ClosingChangesNothingElseAndTwiceIsFine) {
  const auto store = holding(sealed());
  State expected = sealed();
  expected.closed = true;
  const auto first = close_run(store, "job", 1s);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_FALSE(first->was_closed);
  EXPECT_EQ(look_at_run(*store, "job"), expected);
  // Whoever waits for the round to change is woken.
  EXPECT_EQ(store->check({"torch.rendezvous.job.left/3.complete"}), true);
  const auto second = close_run(store, "job", 1s);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(second->was_closed);
}

TEST(RendezvousView, ATypedStoreMustBeOneThatExists) {
  RendezvousParameters parameters{.endpoint = "/no/such/folder/file", .run_id = "job"};
  parameters.config["store_type"] = "file";
  EXPECT_EQ(open_run_store(parameters, 1s).error().kind, ErrorKind::Connection);
  parameters.config["store_type"] = "carrier pigeon";
  EXPECT_EQ(open_run_store(parameters, 1s).error().kind, ErrorKind::InvalidArgument);
}

}  // namespace
}  // namespace regroup::runtime
