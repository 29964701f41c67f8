// Agents by the thousand, played by one thread with a connection each. What one says and when is
// decided by what real agents use (Member, Pulse); but it has no workers to stop, so it joins again
// as soon as it is told to.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/byte_buffer.h"
#include "core/coordinator/member.h"
#include "io/loop/clock.h"
#include "io/net/address.h"
#include "runtime/session/pulse.h"
#include "wire/session/session.h"
#include "wire/store/store_protocol.h"

namespace regroup::bench {

using namespace core::coordinator;

inline constexpr Duration kSilence = 30s;  // If nothing changes for so long, nothing will.
inline constexpr Duration kLookAround = 20ms;
// On their way at a time: beyond the kernel's accept queue it would drop some, and try again a
// second later.
inline constexpr std::size_t kConnectAtOnce = 512;

[[noreturn]] inline void die(const std::string& message) {
  std::cerr << "session_load: " << message << '\n';
  std::exit(1);
}

[[noreturn]] inline void die_of_errno(const std::string& what) {
  die("cannot " + what + ": " + std::strerror(errno));
}

inline double seconds_since(Instant start) {
  return std::chrono::duration<double>(io::now() - start).count();
}

struct Traffic {
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;

  void sent(std::size_t bytes) { ++messages_sent, bytes_sent += bytes; }
  void received(std::size_t bytes) { ++messages_received, bytes_received += bytes; }
  Traffic operator-(const Traffic& o) const {
    return {messages_sent - o.messages_sent, messages_received - o.messages_received,
            bytes_sent - o.bytes_sent, bytes_received - o.bytes_received};
  }
};

// A node of a cluster, by its size the same whichever it is.
inline Hello hello_of(std::size_t number, std::size_t nodes) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "node-%06zu.cluster.example", number);
  const auto count = static_cast<std::int64_t>(nodes);
  return {.run_id = "session-load",
          .node = {.address = name.data(),
                   .pid = 100'000 + static_cast<std::int64_t>(number * 7919 % 100'000),
                   .local_id = 0},
          .claim = {.name = name.data(), .wish = {}, .held = {}},
          .role = "default",
          .workers = 8,
          .rules = {.min_nodes = count - 1, .max_nodes = count, .max_restarts = 3},
          .running = {}};
}

struct Agent {
  enum class Stage { Asking, Greeted, Known, Lost };

  Agent(std::size_t number, std::size_t nodes)
      : member(hello_of(number, nodes)), pulse(RunRules{}.heartbeat_limit, io::now()) {}

  int fd = -1;
  Stage stage = Stage::Asking;
  Member member;
  runtime::Pulse pulse;
  std::uint64_t pings = 0;
  ByteBuffer in;
};

class Crowd {
 public:
  explicit Crowd(std::size_t nodes) : poller_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (poller_ < 0) die_of_errno("make an epoll");
    agents_.reserve(nodes);
    for (std::size_t i = 0; i < nodes; ++i) agents_.emplace_back(i, nodes);
  }

  void connect(const io::Address& address) {
    std::size_t opened = 0;
    while (known_ < agents_.size()) {
      for (; opened < agents_.size() && opened - known_ < kConnectAtOnce; ++opened)
        open(agents_[opened], address);
      turn();
    }
  }

  void join() {
    for (Agent& agent : agents_) join(agent);
    wait_until([this] { return sealed_ == here(); });
    check_ranks();
  }

  // Seconds until all have been told. Each joins again when it is.
  double lose_one() {
    const Instant start = io::now();
    Agent& lost = agents_[agents_.size() / 2];
    ::close(lost.fd);
    lost.stage = Agent::Stage::Lost;
    ++lost_;
    return wait_for_next_round(start);
  }

  double fail_one() {
    const Instant start = io::now();
    Agent& agent = agents_[agents_.size() / 3];
    const std::string& node = agent.member.hello().claim.name;
    say(agent, agent.member.failed({.rank = 8 * agent.member.sealed()->rank,
                                    .node = node,
                                    .exit_code = 1,
                                    .text = "worker 3 on " + node + " failed: exit code 1"}));
    return wait_for_next_round(start);
  }

  void idle(Duration time) {
    const Instant end = io::now() + time;
    while (io::now() < end) turn();
  }

  void finish() {
    for (Agent& agent : agents_)
      if (agent.stage == Agent::Stage::Known) say(agent, agent.member.done());
    wait_until([this] { return over_ == here(); });
  }

  std::size_t here() const { return agents_.size() - lost_; }
  const Traffic& traffic() const { return traffic_; }
  const Traffic& signs_of_life() const { return signs_of_life_; }

 private:
  void open(Agent& agent, const io::Address& address) {
    agent.fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (agent.fd < 0) die_of_errno("open a socket");
    if (::connect(agent.fd, address.get(), address.size) != 0)
      die_of_errno("connect to " + address.text());
    const int on = 1;
    ::setsockopt(agent.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &agent}};
    if (::epoll_ctl(poller_, EPOLL_CTL_ADD, agent.fd, &event) != 0) die_of_errno("use epoll");
    wire::append_greeting(out_);
    const std::vector<std::string_view> keys{wire::kSessionKey};
    wire::append_request(out_, core::store::Check{keys});
    send(agent);
  }

  void join(Agent& agent) {
    say(agent, agent.member.join({.address = agent.member.id().address, .port = 29500}));
  }

  void say(Agent& agent, const FromAgent& message) {
    wire::append_frame(out_, message);
    const bool is_ping = std::holds_alternative<Ping>(message);
    (is_ping ? signs_of_life_ : traffic_).sent(out_.size());
    send(agent);
  }

  // So little always fits into the socket's buffer, unless the coordinator has stopped reading.
  void send(Agent& agent) {
    const auto bytes = out_.view();
    const ssize_t sent = ::send(agent.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != static_cast<ssize_t>(bytes.size())) die_of_errno("say all of a message");
    out_.clear();
  }

  template <class Condition>
  void wait_until(Condition condition) {
    changed_ = io::now();
    while (!condition()) {
      turn();
      if (io::now() - changed_ > kSilence)
        die("nothing happens any more; sealed: " + std::to_string(sealed_) +
            ", told to stop: " + std::to_string(told_) + ", over: " + std::to_string(over_) +
            " of " + std::to_string(here()));
    }
  }

  double wait_for_next_round(Instant start) {
    sealed_ = told_ = 0;
    wait_until([this] { return told_ == here(); });
    const double told = seconds_since(start);
    wait_until([this] { return sealed_ == here(); });
    check_ranks();
    return told;
  }

  void turn() {
    std::array<epoll_event, 256> events;
    const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(kLookAround);
    const int count = ::epoll_wait(poller_, events.data(), static_cast<int>(events.size()),
                                   static_cast<int>(pause.count()));
    if (count < 0 && errno != EINTR) die_of_errno("wait");
    for (int i = 0; i < count; ++i) receive(*static_cast<Agent*>(events[i].data.ptr));
    if (io::now() - looked_ >= kLookAround) look_around();
  }

  void look_around() {
    looked_ = io::now();
    for (Agent& agent : agents_)
      if (agent.stage == Agent::Stage::Known &&
          agent.pulse.look(looked_) != runtime::Pulse::Due::Nothing)
        say(agent, Ping{++agent.pings});
  }

  void receive(Agent& agent) {
    constexpr std::size_t kRoom = 1024;
    const auto room = agent.in.prepare(kRoom);
    const ssize_t got = ::recv(agent.fd, room.data(), room.size(), MSG_DONTWAIT);
    if (got == 0) die("the coordinator has closed the session of " + agent.member.id().address);
    if (got < 0) die_of_errno("hear the coordinator");
    agent.in.commit(static_cast<std::size_t>(got));
    agent.pulse.heard(io::now());
    if (agent.stage == Agent::Stage::Asking) introduce(agent);
    for (;;) {
      auto parsed = wire::parse_frame_from_coordinator(agent.in.view());
      auto* whole = std::get_if<wire::WholeFrame<FromCoordinator>>(&parsed);
      if (whole == nullptr) {
        if (!std::holds_alternative<wire::NeedMore>(parsed)) die("a frame is malformed");
        return;
      }
      agent.in.consume(whole->size);
      const bool is_pong = std::holds_alternative<Pong>(whole->message);
      (is_pong ? signs_of_life_ : traffic_).received(whole->size);
      if (!is_pong) take(agent, std::move(whole->message));
    }
  }

  void introduce(Agent& agent) {
    // The answer to a check: one byte, 0 for «ready».
    if (agent.in.view().front() != 0) die("there is no coordinator at that port");
    agent.in.consume(1);
    agent.stage = Agent::Stage::Greeted;
    for (const FromAgent& message : agent.member.introduction()) say(agent, message);
  }

  void take(Agent& agent, FromCoordinator message) {
    changed_ = io::now();
    if (const auto* welcome = std::get_if<Welcome>(&message)) {
      agent.stage = Agent::Stage::Known;
      agent.pulse.set_limit(welcome->rules.heartbeat_limit);
      ++known_;
    }
    const bool was_joining = agent.member.joining();
    agent.member.on_message(std::move(message));
    if (agent.member.refused() || agent.member.end()) die("the run has come to an end");
    if (agent.member.over()) ++over_;
    if (was_joining && !agent.member.joining()) ++sealed_;
    if (!agent.member.stop()) return;
    ++told_;
    join(agent);
  }

  void check_ranks() const {
    std::vector<bool> seen(here(), false);
    for (const Agent& agent : agents_) {
      if (agent.stage == Agent::Stage::Lost) continue;
      const Sealed& sealed = *agent.member.sealed();
      const auto rank = static_cast<std::size_t>(sealed.rank);
      const bool is_right = sealed.world_size == static_cast<std::int64_t>(here()) &&
                            sealed.round == agents_.front().member.sealed()->round &&
                            rank < here() && !seen[rank];
      if (!is_right) die("the ranks of the round are not 0.." + std::to_string(here() - 1));
      seen[rank] = true;
    }
  }

  const int poller_;
  std::vector<Agent> agents_;
  ByteBuffer out_;
  Instant looked_ = io::now();
  Instant changed_;  // When anything was heard but a pong.
  std::size_t known_ = 0;
  std::size_t lost_ = 0;
  std::size_t sealed_ = 0;  // Since something was last waited for,
  std::size_t told_ = 0;
  std::size_t over_ = 0;
  Traffic traffic_;
  Traffic signs_of_life_;
};

}  // namespace regroup::bench
