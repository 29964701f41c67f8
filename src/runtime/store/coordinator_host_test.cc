// Sessions over real sockets.
#include "runtime/coordinator/coordinator_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "base/byte_buffer.h"
#include "runtime/store/coordinator_host_testing.h"
#include "wire/rendezvous/rendezvous_keys.h"
#include "wire/session/session.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(CoordinatorHostTest, TwoAgentsMeetAndAreToldTheirRanks) {
  Agent a(host_->port(), "a");
  // All in one go: what stands behind the question belongs to the session.
  a.ask().hello("r", kTwo).join().send();
  EXPECT_TRUE(a.is_ready());
  EXPECT_EQ(a.expect<Welcome>().rules.heartbeat_limit, kLong);
  Agent b = joining("b");
  const auto first = a.expect<Sealed>();
  const auto second = b.expect<Sealed>();
  EXPECT_EQ(first.rank, 0);
  EXPECT_EQ(second.rank, 1);
  EXPECT_EQ(second.world_size, 2);
  EXPECT_EQ(second.ranks.base_global_rank, 4);
  EXPECT_EQ(second.bootstrap, (Bootstrap{.address = "a", .port = 1234}));
  a.add(Ping{.number = 42}).send();
  EXPECT_EQ(a.expect<Pong>().number, 42u);
}

TEST_F(CoordinatorHostTest, AFailureStopsBothAndTheyMeetAgain) {
  auto [a, b] = sealed_pair();
  b.add(Failed{.round = 0, .failure = {.rank = 5, .node = "b", .exit_code = 3, .text = "first"}});
  b.join().send();
  const auto told = a.expect<Stop>();
  EXPECT_EQ(told.why, Stop::Why::Failure);
  EXPECT_EQ(told.text, "first");
  EXPECT_EQ(b.expect<Stop>(), told);
  a.join().send();
  EXPECT_EQ(a.expect<Sealed>().restart_count, 1);
  EXPECT_EQ(b.expect<Sealed>().round, 1);
}

TEST_F(CoordinatorHostTest, AClosedConnectionIsALostNode) {
  auto pair = std::make_optional(sealed_pair());
  Agent a = std::move(pair->first);
  pair.reset();
  EXPECT_THAT(a.expect<Stop>().text, HasSubstr("b is gone"));
}

TEST_F(CoordinatorHostTest, AClosedConnectionIsPardonedUntilTheTimerRings) {
  RunRules rules = kTwo;
  rules.reconnect_grace = 50ms;
  Agent a = joining("a", "r", rules);
  {
    Agent b = joining("b", "r", rules);
    b.expect<Sealed>();
  }
  a.expect<Sealed>();
  EXPECT_THAT(a.expect<Stop>().text, HasSubstr("b is gone"));
}

TEST_F(CoordinatorHostTest, ANodeThatComesAgainReplacesItsSession) {
  auto [a, b] = sealed_pair();
  Agent again = agent("b");
  again
      .add(Hello{.run_id = "r",
                 .node = b.id(),
                 .claim = {.name = "b", .wish = {}, .held = {}},
                 .role = "default",
                 .workers = 4,
                 .rules = kTwo,
                 .running = Running{.place = {.round = 0, .rank = 1, .world_size = 2}}})
      .send();
  EXPECT_TRUE(again.expect<Welcome>().member);
  EXPECT_TRUE(b.is_closed());
  again.add(Done{}).send();
  a.add(Done{}).send();
  a.expect<Over>();
  again.expect<Over>();
}

TEST_F(CoordinatorHostTest, OnlyTheExactQuestionOpensASession) {
  const auto client = store();
  EXPECT_EQ(client->check({std::string(wire::kSessionKey)}), false);  // Has a slash in front.
  EXPECT_EQ(counters().sessions_ever, 0u);
  start({});
  EXPECT_EQ(host_->coordinator(), nullptr);
  Agent plain(host_->port());
  plain.ask().send();
  EXPECT_FALSE(plain.is_ready());
}

TEST_F(CoordinatorHostTest, WhoBreaksTheRulesHarmsNobodyElse) {
  start({.coordinator = true, .sessions = {.hello = kLong}});
  Agent half = agent("half");
  half.add_bytes(std::string("\x20\0\0\0\x01", 5)).send();  // The rest never comes.
  Agent silent = agent("silent");
  Agent rubbish = agent("rubbish");
  rubbish.add_bytes("\xff\xff\xff\xffrubbish").send();
  EXPECT_TRUE(rubbish.is_closed());
  Agent impolite = agent("impolite");
  impolite.join().send();
  EXPECT_TRUE(impolite.is_closed());
  EXPECT_EQ(counters().refused, 2u);

  auto [a, b] = sealed_pair();
  b.hello("r", kTwo).send();  // A second one is of no use.
  EXPECT_TRUE(b.is_closed());
  EXPECT_THAT(a.expect<Stop>().text, HasSubstr("b is gone"));
  EXPECT_EQ(counters().sessions, 3u);  // a, half and silent.
}

TEST_F(CoordinatorHostTest, WhoDoesNotSayHelloInTimeIsClosed) {
  start({.coordinator = true, .sessions = {.hello = 100ms}});
  Agent half(host_->port(), "half");
  half.ask().add_bytes(std::string("\x20\0\0\0\x01", 5)).send();
  EXPECT_TRUE(half.is_ready());
  EXPECT_TRUE(half.is_closed());
  EXPECT_EQ(counters().refused, 1u);
}

TEST_F(CoordinatorHostTest, WhoSaysTooMuchIsClosed) {
  Agent chatty = agent("chatty");
  ByteBuffer many;
  for (int i = 0; i < 2 * kMessagesInASecond; ++i) {
    many.append_u32(1);
    many.append_u8(250);  // An unknown kind: skipped, but counted.
  }
  while (chatty.add_bytes(many.view()).send()) {
  }
  EXPECT_EQ(counters().sessions, 0u);
  EXPECT_EQ(counters().refused, 1u);
}

TEST_F(CoordinatorHostTest, MessagesOfANewerAgentAreSkipped) {
  Agent newer = agent("newer");
  newer.add_bytes(std::string("\x03\0\0\0\xfaxy", 7)).hello("r", kTwo).send();
  newer.expect<Welcome>();
}

TEST_F(CoordinatorHostTest, BeyondTheLimitsSessionsAndRunsAreRefused) {
  start({.coordinator = true, .sessions = {.sessions = 2, .runs = 1}});
  Agent a = joining("a", "r");
  Agent other = agent("other");
  Agent third = agent("third");
  EXPECT_THAT(third.expect<Refused>().why, HasSubstr("no room for more sessions"));
  EXPECT_TRUE(third.is_closed());
  other.hello("other", kTwo).send();
  EXPECT_THAT(other.expect<Refused>().why, HasSubstr("no room for more runs"));
  EXPECT_TRUE(other.is_closed());
}

TEST_F(CoordinatorHostTest, ARunThatEverybodyHasLeftMakesRoom) {
  start({.coordinator = true, .sessions = {.runs = 1}});
  {
    auto [a, b] = sealed_pair("first");
    a.add(Leave{}).send();
    b.add(Leave{}).send();
    EXPECT_TRUE(a.is_closed());
    EXPECT_TRUE(b.is_closed());
  }
  Agent other = agent("other");
  other.hello("second", kTwo).send();
  other.expect<Welcome>();
}

TEST_F(CoordinatorHostTest, ARunThatIsOverMakesRoomAndIsStillFoundClosed) {
  start({.coordinator = true, .sessions = {.runs = 1}});
  {
    auto [a, b] = sealed_pair("first");
    a.add(Leave{.why = "enough", .close = true}).send();
    EXPECT_EQ(b.expect<Stop>().why, Stop::Why::Closed);
  }
  while (counters().sessions > 0) {
  }
  auto [a, b] = sealed_pair("second");
  EXPECT_TRUE(decoded(*store()->get(wire::state_key("first"))).closed);
}

TEST_F(CoordinatorHostTest, ALookIsAnsweredInJson) {
  auto [a, b] = sealed_pair();
  Agent waiting = joining("w", "other");
  Agent viewer = agent("viewer");
  viewer.add(Look{}).send();
  EXPECT_THAT(viewer.expect<Report>().json,
              AllOf(HasSubstr("{\"version\": 1, \"sessions\": 4, \"counters\": {"),
                    HasSubstr("\"run_id\": \"r\", \"round\": 0, \"sealed\": true"),
                    HasSubstr("\"run_id\": \"other\", \"round\": 0, \"sealed\": false"),
                    HasSubstr("\"name\": \"b\", \"address\": \"b\", \"place\": \"member\", "
                              "\"rank\": 1, \"workers\": 4, \"connected\": true, "
                              "\"has_session\": true, \"silent_for\": ")));
  viewer.add(Look{.run_id = "other"}).send();  // Again, and only one of them.
  EXPECT_THAT(viewer.expect<Report>().json,
              AllOf(HasSubstr("\"name\": \"w\""), Not(HasSubstr("\"run_id\": \"r\""))));
  viewer.add(Look{.run_id = "none"}).send();
  EXPECT_THAT(viewer.expect<Report>().json, HasSubstr("\"runs\": []"));
}

TEST_F(CoordinatorHostTest, ClearingTheStoreEndsItsSessionsAndForgetsTheirRuns) {
  auto [a, b] = sealed_pair();
  there([this] {
    host_->clear();
    return 0;
  });
  EXPECT_TRUE(a.is_closed());
  EXPECT_TRUE(b.is_closed());
  Agent again = joining("a");
  again.add(Look{.run_id = "r"}).send();
  EXPECT_THAT(again.expect<Report>().json,
              AllOf(HasSubstr("\"sessions\": 1"), HasSubstr("\"sealed\": false")));
}

}  // namespace
}  // namespace regroup::runtime
