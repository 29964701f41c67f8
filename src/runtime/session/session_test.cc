// What is said and heard on the connections of a session.
#include "runtime/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "runtime/common/log.h"
#include "runtime/session/session_fixture_testing.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(SessionTest, IntroducesItselfOnEveryConnection) {
  {
    Caller first = start(options());
    expect_introduction(first, 1);
    first.say(Welcome{.member = false, .rules = {.heartbeat_limit = kNeverSilent}});
    wait_for(heard_, 1);
  }
  EXPECT_THAT(wait_for(lost_, 1), ElementsAre(HasSubstr("closed")));
  {
    Caller second = coordinator_.accept();
    expect_introduction(second, 2);
  }
  Caller third = coordinator_.accept();
  expect_introduction(third, 3);
  third.say(Welcome{.member = true, .rules = {.heartbeat_limit = kNeverSilent}});
  EXPECT_THAT(wait_for(heard_, 2),
              ElementsAre(Welcome{.member = false, .rules = {.heartbeat_limit = kNeverSilent}},
                          Welcome{.member = true, .rules = {.heartbeat_limit = kNeverSilent}}));
  EXPECT_EQ(wait_for(lost_, 2).size(), 2u);
}

TEST_F(SessionTest, HandsOnWhatComesInOrderAndSkipsWhatItDoesNotKnow) {
  Caller caller = start(options());
  ByteBuffer out;
  wire::append_frame(out, FromCoordinator(Progress{.text = "one", .brief = {}}));
  out.append_u32(3);  // A frame of a kind that nobody knows.
  out.append("\xfe??");
  wire::append_frame(out, FromCoordinator(Pong{77}));
  wire::append_frame(out, FromCoordinator(Over{}));
  // In pieces that end anywhere.
  for (const char byte : out.view()) caller.say_bytes({&byte, 1});
  EXPECT_THAT(wait_for(heard_, 2),
              ElementsAre(FromCoordinator(Progress{.text = "one", .brief = {}}), Over{}));
}

TEST_F(SessionTest, PingsAndLivesOnTheAnswers) {
  // More than fit into the limit, so they come only on a connection whose answers are heard. We may
  // be too slow with one ourselves, and are called again then.
  constexpr int kPings = 6;
  constexpr int kTries = 50;
  int answered = 0;
  for (int i = 1; i <= kTries && answered < kPings; ++i) {
    Caller caller = i == 1 ? start(options(300ms)) : coordinator_.accept();
    expect_introduction(caller, i);
    std::uint64_t last = 0;
    for (answered = 0; answered < kPings; ++answered) {
      const auto message = caller.next();
      if (!message) break;
      ASSERT_TRUE(std::holds_alternative<Ping>(*message));
      EXPECT_GT(std::get<Ping>(*message).number, last);
      last = std::get<Ping>(*message).number;
      caller.say(Pong{last});
    }
  }
  EXPECT_EQ(answered, kPings);
}

TEST_F(SessionTest, PingsAsOftenAsTheWelcomeSays) {
  Caller caller = start(options(kNeverSilent));
  expect_introduction(caller, 1);
  caller.say(Welcome{.member = false, .rules = {.heartbeat_limit = kSoonSilent}});
  const auto message = caller.next();
  ASSERT_TRUE(message);
  EXPECT_TRUE(std::holds_alternative<Ping>(*message));
}

TEST_F(SessionTest, ASilentCoordinatorIsLost) {
  Caller silent = start(options(kSoonSilent));
  expect_introduction(silent, 1);
  EXPECT_THAT(wait_for(lost_, 1).front(), HasSubstr("silent"));
  EXPECT_EQ(silent.next_said(), std::nullopt);  // Closed.
  Caller second = coordinator_.accept();
  expect_introduction(second, 2);
}

TEST_F(SessionTest, ACallbackMaySaySomething) {
  auto answering = options();
  answering.on_message = [this](const FromCoordinator&) { session_->say(Done{3}); };
  Caller caller = start(answering);
  expect_introduction(caller, 1);
  caller.say(Over{});
  EXPECT_EQ(caller.next_said(), FromAgent(Done{3}));
}

TEST_F(SessionTest, FlushReturnsWhenAllWasHeard) {
  Caller caller = start(options());
  std::atomic<bool> heard = false;
  std::thread server([&] {
    expect_introduction(caller, 1);
    EXPECT_EQ(caller.next(), FromAgent(Leave{"done", true}));
    heard = true;
    const auto ping = caller.next();
    ASSERT_TRUE(ping);
    caller.say(Pong{std::get<Ping>(*ping).number});
  });
  say(Leave{"done", true});
  flush();
  EXPECT_TRUE(heard);
  server.join();
}

TEST_F(SessionTest, FlushReturnsWhenTheConnectionIsLost) {
  auto once = options();
  once.connect = [] { return fail(ErrorKind::Connection, "nobody there"); };
  {
    Caller caller = start(once);
    expect_introduction(caller, 1);
  }
  flush();
  wait_for(lost_, 1);
  say(Done{1});  // Dropped.
  flush();
}

TEST_F(SessionTest, ACoordinatorThatDoesNotReadIsLost) {
  Caller caller = start(options());
  const auto is_lost = [&] {
    const std::lock_guard lock(mutex_);
    return !lost_.empty();
  };
  while (!is_lost()) say(Leave{.why = std::string(4000, '.'), .close = false});
  EXPECT_THAT(wait_for(lost_, 1).front(), HasSubstr("does not take"));
}

TEST_F(SessionTest, NonsenseIsLostAndToldOnce) {
  std::vector<std::string> lines;
  const LogSink sink([&](const std::string& line) { tell(lines, line); });
  for (int i = 1; i <= 3; ++i) {
    Caller caller = i == 1 ? start(options()) : coordinator_.accept();
    expect_introduction(caller, i);
    caller.say_bytes("HTTP/1.1 400 Bad Request\r\n\r\n");
    EXPECT_EQ(caller.next(), std::nullopt);
  }
  EXPECT_EQ(wait_for(lost_, 3).size(), 3u);
  end_session();
  EXPECT_THAT(lines, ElementsAre(HasSubstr("cannot be understood")));
}

}  // namespace
}  // namespace regroup::runtime
