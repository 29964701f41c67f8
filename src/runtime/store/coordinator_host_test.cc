// Sessions over real sockets: agents that a test speaks for, and store clients beside them.
#include "runtime/coordinator/coordinator_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "base/byte_buffer.h"
#include "core/rendezvous/decide.h"
#include "io/loop/clock.h"
#include "io/net/client_socket.h"
#include "regroup/store.h"
#include "runtime/store/store_host.h"
#include "wire/bytes/base64.h"
#include "wire/rendezvous/rendezvous_keys.h"
#include "wire/rendezvous/rendezvous_state.h"
#include "wire/session/session.h"
#include "wire/store/store_protocol.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;
using core::rendezvous::NodeId;
using core::rendezvous::State;
using testing::AllOf;
using testing::HasSubstr;

Instant soon() { return io::deadline_after(60s); }

// No node is lost because the machine is slow.
constexpr Duration kLong = 1h;
const RunRules kTwo{.min_nodes = 2,
                    .max_nodes = 2,
                    .last_call = kLong,
                    .max_restarts = 1,
                    .heartbeat_limit = kLong,
                    .reconnect_grace = 0s};

class Agent {
 public:
  explicit Agent(std::uint16_t port, const std::string& name = "")
      : name_(name),
        socket_(std::move(
            *io::ClientSocket::connect(io::resolve("127.0.0.1", port, soon())->front(), soon()))) {}

  NodeId id() const { return {.address = name_, .pid = 1, .local_id = 0}; }

  // The question for a session, and behind it in the same bytes what is added before send().
  Agent& ask() {
    wire::append_greeting(out_);
    const std::string_view key = wire::kSessionKey;
    wire::append_request(out_, core::store::Check{core::store::KeyViews(&key, 1)});
    return *this;
  }
  Agent& add(const FromAgent& message) {
    wire::append_frame(out_, message);
    return *this;
  }
  Agent& add_bytes(std::string_view bytes) {
    out_.append(bytes);
    return *this;
  }
  Agent& hello(const std::string& run_id, const RunRules& rules) {
    return add(Hello{.run_id = run_id,
                     .node = id(),
                     .claim = {.name = name_, .wish = {}, .held = {}},
                     .role = "default",
                     .workers = 4,
                     .rules = rules});
  }
  Agent& join() {
    return add(Join{.number = ++joins_, .bootstrap = {.address = name_, .port = 1234}});
  }
  bool send() {
    const bool sent = socket_.send(out_.view(), soon()).has_value();
    out_.clear();
    return sent;
  }

  bool is_ready() {
    wire::ReplyParser parser(1024);
    for (;;) {
      wire::Progress progress;
      auto parsed = parser.parse(wire::ReplyShape::Ready, 0, in_.view(), progress);
      if (const auto* whole = std::get_if<wire::Whole<core::store::Reply>>(&parsed)) {
        const bool all = std::get<core::store::Ready>(whole->message).all;
        in_.consume(whole->size);
        return all;
      }
      if (!read()) return false;
    }
  }

  std::optional<FromCoordinator> next() {
    for (;;) {
      auto parsed = wire::parse_frame_from_coordinator(in_.view());
      if (auto* whole = std::get_if<wire::WholeFrame<FromCoordinator>>(&parsed)) {
        in_.consume(whole->size);
        return std::move(whole->message);
      }
      if (!std::holds_alternative<wire::NeedMore>(parsed) || !read()) return std::nullopt;
    }
  }

  // The next message but for Progress, which comes when it comes.
  template <class Message>
  Message expect() {
    auto message = next();
    while (message && std::holds_alternative<Progress>(*message)) message = next();
    EXPECT_TRUE(message) << name_ << ": the connection has ended";
    if (!message) return {};
    const auto* expected = std::get_if<Message>(&*message);
    EXPECT_TRUE(expected) << name_ << ": it is message " << message->index();
    return expected == nullptr ? Message{} : *expected;
  }

  bool is_closed() {
    while (next()) {
    }
    return !read();
  }

 private:
  bool read() {
    const auto room = in_.prepare(4096);
    const auto got = socket_.receive(room.first(4096), soon());
    if (!got) {
      EXPECT_NE(got.error().kind, ErrorKind::Timeout) << name_;
      return false;
    }
    in_.commit(*got);
    return true;
  }

  std::string name_;
  std::uint64_t joins_ = 0;
  io::ClientSocket socket_;
  ByteBuffer in_;
  ByteBuffer out_;
};

class CoordinatorHostTest : public testing::Test {
 protected:
  void SetUp() override { start({.coordinator = true}); }
  void TearDown() override { stop(); }

  void start(const StoreHostOptions& options) {
    stop();
    loop_ = std::move(*io::Loop::open());
    host_ = std::move(*StoreHost::open(*loop_, options));
    thread_ = std::thread([this] { loop_->run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    loop_->stop();
    thread_.join();
    host_.reset();
  }

  // On the loop's thread.
  template <class Task>
  auto there(Task task) {
    std::promise<decltype(task())> answer;
    loop_->post([&] { answer.set_value(task()); });
    return answer.get_future().get();
  }
  CoordinatorCounters counters() {
    return there([this] { return host_->coordinator()->counters(); });
  }

  Agent agent(const std::string& name) {
    Agent agent(host_->port(), name);
    agent.ask().send();
    EXPECT_TRUE(agent.is_ready());
    return agent;
  }
  Agent joining(const std::string& name, const std::string& run_id = "r",
                const RunRules& rules = kTwo) {
    Agent one = agent(name);
    one.hello(run_id, rules).join().send();
    one.expect<Welcome>();
    return one;
  }
  std::pair<Agent, Agent> sealed_pair(const std::string& run_id = "r") {
    std::pair<Agent, Agent> pair{joining("a", run_id), joining("b", run_id)};
    EXPECT_EQ(pair.first.expect<Sealed>().rank, 0);
    EXPECT_EQ(pair.second.expect<Sealed>().rank, 1);
    return pair;
  }

  std::shared_ptr<Store> store() const {
    return *connect_tcp_store({.host = "127.0.0.1", .port = host_->port(), .timeout = 60s});
  }
  static State decoded(const std::string& text) {
    auto state = wire::decode_state(*wire::decode_base64(text));
    EXPECT_TRUE(state) << state.error().message;
    return state.value_or(State{});
  }
  static std::string encoded(const State& state) {
    return wire::encode_base64(wire::encode_state(state));
  }

  std::unique_ptr<io::Loop> loop_;
  std::unique_ptr<StoreHost> host_;
  std::thread thread_;
};

const NodeId kStranger{.address = "t", .pid = 7, .local_id = 0};

// As a node without a session adds itself.
State with_stranger(State state, const RunRules& rules) {
  return core::rendezvous::apply(
      std::move(state), core::rendezvous::Action::AddToParticipants,
      {.node = kStranger, .claim = {}, .utc = {1'000'000}},
      {.run_id = "r", .min_nodes = rules.min_nodes, .max_nodes = rules.max_nodes});
}

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

TEST_F(CoordinatorHostTest, AStoreClientSeesTheStateOfTheSessions) {
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

TEST_F(CoordinatorHostTest, AStoreClientCanCloseTheRun) {
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

TEST_F(CoordinatorHostTest, ANodeWithoutASessionJoinsThroughTheState) {
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

TEST_F(CoordinatorHostTest, TheFirstHelloFindsTheStateOfNodesWithoutASession) {
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

TEST_F(CoordinatorHostTest, NobodyIsToldOfPhasesWhoHasNotLooked) {
  auto [a, b] = sealed_pair();
  EXPECT_EQ(store()->num_keys(), 0);
}

TEST_F(CoordinatorHostTest, AStateThatIsNoneIsIgnored) {
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
