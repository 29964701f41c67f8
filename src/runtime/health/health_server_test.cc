#include "runtime/health/health_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <thread>

#include "io/loop/clock.h"
#include "io/net/client_socket.h"

namespace regroup::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Instant soon() { return io::deadline_after(60s); }

// An agent's loop on a thread of its own, and a server that asks it.
class HealthServerTest : public testing::Test {
 protected:
  void start(Duration limit) {
    agent_ = std::thread([this, limit] {
      auto started =
          HealthServer::start({.address = "127.0.0.1", .limit = limit}, *loop_, {.look = [this] {
                                HealthSnapshot now;
                                now.rounds = ++looks_;
                                return now;
                              }});
      EXPECT_TRUE(started) << started.error().message;
      server_ = std::move(*started);
      port_.set_value(server_->port());
      loop_->run();
      server_.reset();
    });
    known_port_ = port_.get_future().get();
  }
  void TearDown() override {
    if (!agent_.joinable()) return;
    loop_->stop();
    agent_.join();
  }

  io::ClientSocket connect() const {
    const auto address = io::resolve("127.0.0.1", known_port_, soon());
    return std::move(*io::ClientSocket::connect(address->front(), soon()));
  }

  static std::string to_end(io::ClientSocket& socket) {
    std::string text;
    std::array<char, 4096> room;
    while (const auto got = socket.receive(room, soon())) text.append(room.data(), *got);
    return text;
  }

  std::string get(const std::string& path) const {
    auto socket = connect();
    EXPECT_TRUE(socket.send("GET " + path + " HTTP/1.0\r\n\r\n", soon()));
    return to_end(socket);
  }

  // The first answer with that status.
  std::string until(int status, const std::string& path) const {
    for (;;)
      if (auto answer = get(path); answer.starts_with("HTTP/1.1 " + std::to_string(status)))
        return answer;
  }

  std::unique_ptr<io::Loop> loop_ = std::move(*io::Loop::open());
  std::thread agent_;
  std::promise<std::uint16_t> port_;
  std::uint16_t known_port_ = 0;
  std::unique_ptr<HealthServer> server_;
  std::atomic<int> looks_ = 0;
};

// A loaded machine may make the agent late, which is then what the answer says: it is asked again.
TEST_F(HealthServerTest, AsksTheAgentWhenItIsAsked) {
  start(60s);
  EXPECT_THAT(get("/"), HasSubstr("/healthz"));
  EXPECT_THAT(get("/other"), StartsWith("HTTP/1.1 404 "));
  EXPECT_EQ(looks_, 0);  // These are no questions about the agent.
  for (const char* path : {"/healthz", "/readyz", "/status", "/metrics"}) {
    const int before = looks_;
    while (looks_ == before) get(path);
  }
  std::string fresh;
  do {
    fresh = "\nregroup_rounds_total " + std::to_string(looks_ + 1) + "\n";
  } while (get("/metrics").find(fresh) == std::string::npos);
}

TEST_F(HealthServerTest, SaysSoWhenTheLoopIsStuckAndWhenItIsNoLonger) {
  start(100ms);
  until(200, "/healthz");
  std::promise<void> let_go;
  std::promise<void> held;
  loop_->post([&, gate = let_go.get_future().share()] {
    HealthSnapshot last;
    last.doing = "running";
    last.restarts = 7;
    server_->publish(std::move(last));
    held.set_value();
    gate.wait();
  });
  held.get_future().wait();
  EXPECT_THAT(until(503, "/healthz"), HasSubstr("stuck: the agent's loop has not turned since"));
  EXPECT_THAT(get("/readyz"), StartsWith("HTTP/1.1 503 "));
  // What is known of it is what it published last.
  EXPECT_THAT(get("/status"), AllOf(HasSubstr("\"alive\": false"), HasSubstr("\"restarts\": 7")));
  EXPECT_THAT(get("/metrics"), HasSubstr("\nregroup_up 0\n"));
  let_go.set_value();
  until(200, "/healthz");
}

TEST_F(HealthServerTest, AnswersWithinTheLimitOfAStuckLoopHowLongItHasBeenQuiet) {
  start(3600s);
  std::promise<void> let_go;
  loop_->post([gate = let_go.get_future().share()] { gate.wait(); });
  // Long before the limit, because a probe does not wait for long.
  EXPECT_THAT(get("/healthz"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("has not turned since")));
  let_go.set_value();
}

TEST_F(HealthServerTest, AnswersManyRequestsOfOneConnectionInOrder) {
  start(60s);
  auto socket = connect();
  std::string requests;
  for (int i = 0; i < 20; ++i)
    requests += "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\nGET /x HTTP/1.1\r\nHost: h\r\n\r\n";
  ASSERT_TRUE(socket.send(requests + "GET / HTTP/1.0\r\n\r\n", soon()));
  const std::string answers = to_end(socket);
  std::string order;
  for (std::size_t at = 0; (at = answers.find("HTTP/1.1 ", at)) != std::string::npos; at += 9)
    order += answers.substr(at + 9, 1);
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += "24";
  EXPECT_EQ(order, expected + "2");
}

TEST_F(HealthServerTest, APortThatIsTakenIsSaid) {
  start(60s);
  const auto second =
      HealthServer::start({.address = "127.0.0.1", .port = known_port_}, *loop_, {.look = {}});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("the port is taken"));
}

}  // namespace
}  // namespace regroup::runtime
