// What the tests of the coordinator at a store's port share: a host on a loop of its own, and agents
// that a test speaks for, over real sockets.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

#include "base/byte_buffer.h"
#include "core/coordinator/messages.h"
#include "core/rendezvous/state.h"
#include "io/loop/clock.h"
#include "io/loop/loop.h"
#include "io/net/address.h"
#include "io/net/client_socket.h"
#include "regroup/run_rules.h"
#include "regroup/store.h"
#include "runtime/coordinator/coordinator_host.h"
#include "runtime/store/store_host.h"
#include "wire/bytes/base64.h"
#include "wire/rendezvous/rendezvous_state.h"
#include "wire/session/session.h"
#include "wire/store/store_protocol.h"

namespace regroup::runtime {

inline Instant soon() { return io::deadline_after(60s); }

// No node is lost because the machine is slow.
inline constexpr Duration kLong = 1h;
inline const RunRules kTwo{.min_nodes = 2,
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

  core::rendezvous::NodeId id() const { return {.address = name_, .pid = 1, .local_id = 0}; }

  // The question for a session, and behind it in the same bytes what is added before send().
  Agent& ask() {
    wire::append_greeting(out_);
    const std::string_view key = wire::kSessionKey;
    wire::append_request(out_, core::store::Check{core::store::KeyViews(&key, 1)});
    return *this;
  }
  Agent& add(const core::coordinator::FromAgent& message) {
    wire::append_frame(out_, message);
    return *this;
  }
  Agent& add_bytes(std::string_view bytes) {
    out_.append(bytes);
    return *this;
  }
  Agent& hello(const std::string& run_id, const RunRules& rules) {
    return add(core::coordinator::Hello{.run_id = run_id,
                                        .node = id(),
                                        .claim = {.name = name_, .wish = {}, .held = {}},
                                        .role = "default",
                                        .workers = 4,
                                        .rules = rules});
  }
  Agent& join() {
    return add(
        core::coordinator::Join{.number = ++joins_, .bootstrap = {.address = name_, .port = 1234}});
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

  std::optional<core::coordinator::FromCoordinator> next() {
    for (;;) {
      auto parsed = wire::parse_frame_from_coordinator(in_.view());
      if (auto* whole =
              std::get_if<wire::WholeFrame<core::coordinator::FromCoordinator>>(&parsed)) {
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
    while (message && std::holds_alternative<core::coordinator::Progress>(*message))
      message = next();
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
    one.expect<core::coordinator::Welcome>();
    return one;
  }
  std::pair<Agent, Agent> sealed_pair(const std::string& run_id = "r") {
    std::pair<Agent, Agent> pair{joining("a", run_id), joining("b", run_id)};
    EXPECT_EQ(pair.first.expect<core::coordinator::Sealed>().rank, 0);
    EXPECT_EQ(pair.second.expect<core::coordinator::Sealed>().rank, 1);
    return pair;
  }

  std::shared_ptr<Store> store() const {
    return *connect_tcp_store({.host = "127.0.0.1", .port = host_->port(), .timeout = 60s});
  }
  static core::rendezvous::State decoded(const std::string& text) {
    auto state = wire::decode_state(*wire::decode_base64(text));
    EXPECT_TRUE(state) << state.error().message;
    return state.value_or(core::rendezvous::State{});
  }
  static std::string encoded(const core::rendezvous::State& state) {
    return wire::encode_base64(wire::encode_state(state));
  }

  std::unique_ptr<io::Loop> loop_;
  std::unique_ptr<StoreHost> host_;
  std::thread thread_;
};

}  // namespace regroup::runtime
