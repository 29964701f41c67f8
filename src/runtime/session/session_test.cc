#include "runtime/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "io/loop/loop.h"
#include "runtime/common/log.h"
#include "runtime/session/session_testing.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Nobody is silent for so long here.
constexpr Duration kNeverSilent = 1h;
// For those that are to be found silent.
constexpr Duration kSoonSilent = 60ms;

Hello hello(const std::string& name = "a") {
  Hello message;
  message.run_id = "run";
  message.claim.name = name;
  return message;
}

const SessionProofs kProofs{.ours = {Bytes32{1, 2, 3}}, .theirs = {Bytes32{4, 5, 6}}};

// A session, and what it has told.
class SessionTest : public testing::Test {
 protected:
  SessionTest() : loop_(std::move(*io::Loop::open())), thread_([this] { loop_->run(); }) {}
  ~SessionTest() override {
    end_session();
    loop_->stop();
    thread_.join();
  }

  void on_loop(const std::function<void()>& call) {
    std::promise<void> done;
    loop_->post([&] {
      call();
      done.set_value();
    });
    done.get_future().wait();
  }
  void say(const FromAgent& message) {
    on_loop([&] { session_->say(message); });
  }
  void flush() {
    std::promise<void> done;
    on_loop([&] { session_->flush(kNeverSilent, [&] { done.set_value(); }); });
    done.get_future().wait();
  }
  void end_session() {
    on_loop([&] { session_.reset(); });
  }

  SessionOptions options(Duration heartbeat_limit = kNeverSilent) {
    return {
        .connect = [address = coordinator_.address()] { return FakeCoordinator::connect(address); },
        .introduction = [this]() -> std::vector<FromAgent> {
          return {hello("introduction " + std::to_string(++introductions_)), Join{1, {"here", 1}}};
        },
        .on_message = [this](FromCoordinator message) { tell(heard_, std::move(message)); },
        .on_lost = [this](const std::string& why) { tell(lost_, why); },
        .heartbeat_limit = heartbeat_limit};
  }

  // With its first connection, which the coordinator has taken.
  Caller start(SessionOptions options) {
    auto first = FakeCoordinator::connect(coordinator_.address());
    EXPECT_TRUE(first) << first.error().message;
    Caller caller = coordinator_.accept();
    on_loop([&] {
      session_ = std::make_unique<Session>(*loop_, std::move(*first), std::move(options));
    });
    return caller;
  }

  // The question has been asked and answered.
  Caller start_with_secret(SessionOptions options) {
    auto first = FakeCoordinator::connect(coordinator_.address());
    EXPECT_TRUE(first) << first.error().message;
    first->proofs = kProofs;
    Caller caller = coordinator_.accept();
    on_loop([&] {
      session_ = std::make_unique<Session>(*loop_, std::move(*first), std::move(options));
    });
    return caller;
  }

  static void expect_introduction(Caller& caller, int number) {
    EXPECT_EQ(caller.next(), FromAgent(hello("introduction " + std::to_string(number))));
    EXPECT_EQ(caller.next(), FromAgent(Join{1, {"here", 1}}));
  }

  template <class T>
  void tell(std::vector<T>& told, T what) {
    const std::lock_guard lock(mutex_);
    told.push_back(std::move(what));
    changed_.notify_all();
  }
  template <class T>
  std::vector<T> wait_for(const std::vector<T>& told, std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 60s, [&] { return told.size() >= count; }));
    return told;
  }

  std::unique_ptr<io::Loop> loop_;
  FakeCoordinator coordinator_;
  int introductions_ = 0;  // The loop's thread only.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<FromCoordinator> heard_;
  std::vector<std::string> lost_;
  std::unique_ptr<Session> session_;  // On the loop's thread.
  std::thread thread_;
};

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

TEST_F(SessionTest, ALastingRefusalEndsIt) {
  const auto calls = std::make_shared<std::atomic<int>>(0);
  auto counting = options();
  counting.connect = [calls, address = coordinator_.address()] {
    ++*calls;
    return FakeCoordinator::connect(address);
  };
  Caller caller = start(counting);
  expect_introduction(caller, 1);
  caller.say(Refused{.why = "the run is over", .lasting = true});
  EXPECT_EQ(caller.next(), std::nullopt);  // Closed.
  EXPECT_THAT(wait_for(heard_, 1), ElementsAre(Refused{.why = "the run is over", .lasting = true}));
  say(Done{1});
  {
    // Nothing happens, so there is nothing to wait for: a slow machine may overlook a mistake here,
    // but finds none where there is none.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 200ms, [&] { return !lost_.empty(); });
  }
  end_session();
  EXPECT_THAT(lost_, IsEmpty());
  EXPECT_EQ(*calls, 0);
}

TEST_F(SessionTest, ARefusalThatMayPassIsTriedAgain) {
  Caller caller = start(options());
  expect_introduction(caller, 1);
  caller.say(Refused{.why = "too many", .lasting = false});
  EXPECT_THAT(wait_for(lost_, 1), ElementsAre(HasSubstr("too many")));
  Caller second = coordinator_.accept();
  expect_introduction(second, 2);
  EXPECT_EQ(wait_for(heard_, 1).size(), 1u);
}

TEST_F(SessionTest, ProvesItselfInFrontOfItsIntroductionAndHeedsAProvenCoordinator) {
  Caller caller = start_with_secret(options());
  EXPECT_EQ(caller.next(), FromAgent(kProofs.ours));
  expect_introduction(caller, 1);
  caller.say(kProofs.theirs);
  caller.say(Over{});
  EXPECT_THAT(wait_for(heard_, 1), ElementsAre(FromCoordinator(Over{})));
}

TEST_F(SessionTest, HeedsNothingBeforeTheProofOfTheCoordinator) {
  for (const FromCoordinator& first :
       std::vector<FromCoordinator>{Over{}, Stop{}, Pong{1}, CoordinatorProof{},
                                    CoordinatorProof{kProofs.ours.proof}, Challenge{}}) {
    SCOPED_TRACE(first.index());
    heard_.clear();
    introductions_ = 0;
    {
      Caller caller = start_with_secret(options());
      caller.say(first);
      caller.say(kProofs.theirs);
      caller.say(Over{});
      EXPECT_THAT(wait_for(heard_, 1),
                  ElementsAre(FromCoordinator(Refused{.why = kNotProven, .lasting = true})));
    }
    end_session();
    EXPECT_EQ(heard_.size(), 1u);
  }
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(SessionTest, ARefusalNeedsNoProof) {
  const FromCoordinator refused(Refused{.why = "the secret is not the coordinator's"});
  Caller caller = start_with_secret(options());
  caller.say(refused);
  EXPECT_THAT(wait_for(heard_, 1), ElementsAre(refused));
}

// Somebody else has the port while the coordinator is started again.
TEST_F(SessionTest, AnUnprovenServerIsWaitedOutOnceACoordinatorWasProven) {
  auto some = options();
  int calls = 0;
  some.connect = [&]() -> Result<OpenedSession> {
    if (++calls == 1) return fail(ErrorKind::Refused, "another secret");
    auto next = FakeCoordinator::connect(coordinator_.address());
    if (next) next->proofs = kProofs;
    return next;
  };
  {
    Caller caller = start_with_secret(some);
    caller.say(kProofs.theirs);
    caller.say(Welcome{});
    EXPECT_EQ(wait_for(heard_, 1).size(), 1u);
  }
  EXPECT_THAT(wait_for(lost_, 2), ElementsAre(testing::_, "another secret"));
  for (const FromCoordinator& said : std::vector<FromCoordinator>{Pong{1}, Refused{.why = "go"}}) {
    Caller stranger = coordinator_.accept();
    stranger.say(said);
    while (stranger.next()) {
    }
  }
  Caller again = coordinator_.accept();
  again.say(kProofs.theirs);
  again.say(Over{});
  EXPECT_EQ(wait_for(heard_, 2).back(), FromCoordinator(Over{}));
}

TEST_F(SessionTest, DoesNotComeBackWhenItIsRefusedWhileConnecting) {
  auto once = options();
  once.connect = []() -> Result<OpenedSession> {
    return fail(ErrorKind::Refused, "another secret");
  };
  { const Caller caller = start(once); }
  EXPECT_THAT(wait_for(heard_, 1),
              ElementsAre(FromCoordinator(Refused{.why = "another secret", .lasting = true})));
  say(Ping{1});  // To nobody.
}

TEST_F(SessionTest, EndsWhileTheCoordinatorIsSilent) {
  Caller caller = start(options());
  expect_introduction(caller, 1);
  end_session();
  EXPECT_EQ(caller.next(), std::nullopt);
  EXPECT_THAT(lost_, IsEmpty());
  EXPECT_THAT(heard_, IsEmpty());
}

TEST_F(SessionTest, EndsWhileConnectFailsAgainAndAgain) {
  const auto tries = std::make_shared<std::atomic<int>>(0);
  auto failing = options();
  failing.connect = [tries] {
    ++*tries;
    tries->notify_all();
    return fail(ErrorKind::Connection, "nobody there");
  };
  { const Caller caller = start(failing); }
  for (int seen = 0; seen < 4; seen = *tries) tries->wait(seen);
  end_session();
  EXPECT_EQ(lost_.size(), 1u);
}

TEST_F(SessionTest, EndsWhileConnectBlocksAndClosesWhatItBringsLater) {
  // What connect() needs is its own: it outlives the session.
  struct Block {
    std::promise<void> entered;
    std::promise<void> go_on;
  };
  const auto block = std::make_shared<Block>();
  auto blocked = options();
  blocked.connect = [block, address = coordinator_.address()] {
    block->entered.set_value();
    block->go_on.get_future().wait();
    return FakeCoordinator::connect(address);
  };
  { const Caller caller = start(blocked); }
  block->entered.get_future().wait();
  end_session();
  EXPECT_EQ(lost_.size(), 1u);
  block->go_on.set_value();
  Caller late = coordinator_.accept();
  EXPECT_EQ(late.next(), std::nullopt);
  EXPECT_EQ(introductions_, 1);
}

TEST_F(SessionTest, EndsWhileTheCoordinatorKeepsTalking) {
  Caller caller = start(options());
  std::atomic<bool> enough = false;
  std::thread talker([&] {
    while (!enough) caller.say(Over{});
  });
  wait_for(heard_, 100);
  end_session();
  const std::size_t told = heard_.size();
  enough = true;
  talker.join();
  EXPECT_EQ(heard_.size(), told);
}

}  // namespace
}  // namespace regroup::runtime
