// Load for a store server, from one thread: what redis-benchmark is to Redis.
//
//   store_load get|set|add --port P --connections 50 --depth 16 --requests 800000 --value-bytes 64
//   store_load connect     --port P --connections 10000
//
// Prints "ready" when everything is prepared, starts when it reads a line, prints one line of JSON,
// and keeps its connections until stdin closes: so whoever runs it can look at the server before
// and after, and sees nothing but the load in between.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_buffer.h"
#include "io/loop/clock.h"
#include "io/loop/descriptor_limit.h"
#include "io/net/address.h"
#include "wire/store/store_protocol.h"

namespace {

using namespace regroup;
using namespace regroup::core::store;

constexpr std::uint32_t kNonce = 0x52475250;
constexpr int kSilenceMs = 20'000;  // A server that says nothing for so long will not say it later.

struct Options {
  std::string mode;
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::size_t connections = 50;
  std::size_t depth = 16;
  std::size_t requests = 800'000;
  std::size_t value_bytes = 64;
  std::size_t at_once = 512;
};

[[noreturn]] void die(const std::string& message) {
  std::cerr << "store_load: " << message << '\n';
  std::exit(1);
}

[[noreturn]] void die_of_errno(const std::string& what) {
  die("cannot " + what + ": " + std::strerror(errno));
}

// What travels in one go, and how long all the answers to it are together.
struct Batch {
  ByteBuffer bytes;
  std::size_t answer_bytes = 0;
};

Batch greeting() {
  Batch batch;
  wire::append_greeting(batch.bytes);
  wire::append_request(batch.bytes, Ping{kNonce});
  batch.answer_bytes = sizeof kNonce;
  return batch;
}

std::uint64_t number_at(std::string_view bytes, std::size_t position) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data() + position, sizeof number);
  return number;
}

void expect_pong(std::string_view answer) {
  std::uint32_t nonce = 0;
  std::memcpy(&nonce, answer.data(), sizeof nonce);
  if (nonce != kNonce) die("the server answered a ping with another number");
}

// Sockets block: a batch always fits into an empty send buffer, and we read only when epoll says
// so.
struct Connection {
  int fd = -1;
  std::size_t received = 0;
  std::vector<char> answer;

  void open(const io::Address& address) {
    fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) die_of_errno("open a socket");
    if (::connect(fd, address.get(), address.size) != 0)
      die_of_errno("connect to " + address.text());
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  void send(const Batch& batch) {
    const auto bytes = batch.bytes.view();
    if (::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
      die_of_errno("send a whole batch");
    answer.resize(batch.answer_bytes);
    received = 0;
  }

  // Takes what there is. True: the whole answer is there.
  bool receive() {
    const ssize_t n = ::recv(fd, answer.data() + received, answer.size() - received, 0);
    if (n == 0) die("the server closed a connection");
    if (n < 0) die_of_errno("receive");
    received += static_cast<std::size_t>(n);
    return received == answer.size();
  }
};

// Calls `step` for every connection that has something to read.
class Poller {
 public:
  Poller() : fd_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (fd_ < 0) die_of_errno("make an epoll");
  }
  void add(Connection& connection) const {
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &connection}};
    if (::epoll_ctl(fd_, EPOLL_CTL_ADD, connection.fd, &event) != 0) die_of_errno("use epoll");
  }
  template <class Step>
  void wait(Step step) {
    const int n = ::epoll_wait(fd_, events_.data(), static_cast<int>(events_.size()), kSilenceMs);
    if (n == 0) die("the server is silent");
    if (n < 0 && errno != EINTR) die_of_errno("wait");
    for (int i = 0; i < n; ++i) step(*static_cast<Connection*>(events_[i].data.ptr));
  }

 private:
  int fd_;
  std::array<epoll_event, 256> events_;
};

void wait_for_go() {
  std::puts("ready");
  std::fflush(stdout);
  if (std::string line; !std::getline(std::cin, line)) std::exit(0);
}

double seconds_since(Instant start) {
  return std::chrono::duration<double>(io::now() - start).count();
}

// Opens all connections and has each of them greeted.
//
// At most `at_once` are on their way at a time. Beyond the kernel's accept queue (usually 4096) it
// would drop them and try again a second later, and we would measure that second.
void connect_all(std::vector<Connection>& connections, const Options& options,
                 const io::Address& address, Poller& poller) {
  const Batch hello = greeting();
  std::size_t opened = 0;
  std::size_t greeted = 0;
  while (greeted < connections.size()) {
    while (opened < connections.size() && opened - greeted < options.at_once) {
      Connection& connection = connections[opened++];
      connection.open(address);
      connection.send(hello);
      poller.add(connection);
    }
    poller.wait([&](Connection& connection) {
      if (!connection.receive()) return;
      expect_pong({connection.answer.data(), connection.answer.size()});
      ++greeted;
    });
  }
}

// Every connection sends a batch, waits for all its answers, and sends the next, as redis-benchmark
// does. The batch is encoded once; answers are checked, so that a wrong one is not a fast one.
class Load {
 public:
  explicit Load(const Options& options)
      : mode_(options.mode), depth_(options.depth), value_(options.value_bytes, 'v') {
    for (std::size_t i = 0; i < depth_; ++i) {
      if (mode_ == "get") add_request(Get{kKey}, sizeof(std::uint64_t) + value_.size());
      if (mode_ == "set") add_request(Set{kKey, value_}, 0);
      if (mode_ == "add") add_request(Add{kCounter, 1}, sizeof(std::int64_t));
    }
    // The protocol does not answer a set, so a ping tells when the batch is done.
    if (mode_ == "set") add_request(Ping{kNonce}, sizeof kNonce);
  }

  void prepare(Connection& connection) const {
    Batch batch;
    wire::append_request(batch.bytes, Set{kKey, value_});
    wire::append_request(batch.bytes, DeleteKey{kCounter});
    batch.answer_bytes = sizeof(std::int64_t);
    connection.send(batch);
    while (!connection.receive()) continue;
  }

  void run(std::vector<Connection>& connections, std::size_t requests, Poller& poller) {
    std::size_t sent = 0;
    std::size_t done = 0;
    for (Connection& connection : connections) {
      if (sent == requests) break;
      connection.send(batch_);
      sent += depth_;
    }
    while (done < requests) {
      poller.wait([&](Connection& connection) {
        if (!connection.receive()) return;
        check({connection.answer.data(), connection.answer.size()});
        done += depth_;
        if (sent == requests) return;
        connection.send(batch_);
        sent += depth_;
      });
    }
    if (mode_ == "add" && largest_ != requests)
      die("the counter is " + std::to_string(largest_) + " after " + std::to_string(requests) +
          " additions of 1");
  }

 private:
  // As long as the keys that redis-benchmark uses.
  static constexpr std::string_view kKey = "key:000000000000";
  static constexpr std::string_view kCounter = "counter:000000000000";

  void add_request(const Request& request, std::size_t answer_bytes) {
    wire::append_request(batch_.bytes, request);
    batch_.answer_bytes += answer_bytes;
  }

  void check(std::string_view answer) {
    if (mode_ == "set") return expect_pong(answer);
    const std::size_t step = answer.size() / depth_;
    for (std::size_t at = 0; at < answer.size(); at += step) {
      const std::uint64_t number = number_at(answer, at);
      if (mode_ == "add") {
        largest_ = std::max(largest_, number);
      } else if (number != value_.size()) {
        die("a value of " + std::to_string(number) + " bytes came back");
      }
    }
  }

  std::string mode_;
  std::size_t depth_;
  std::string value_;
  Batch batch_;
  std::uint64_t largest_ = 0;
};

void run(const Options& options) {
  io::raise_descriptor_limit();
  const auto addresses =
      io::resolve(options.host, options.port, io::deadline_after(std::chrono::seconds(10)));
  if (!addresses) die(addresses.error().message);
  std::vector<Connection> connections(options.connections);
  Poller poller;
  Instant start{};
  if (options.mode == "connect") {
    wait_for_go();
    start = io::now();
    connect_all(connections, options, addresses->front(), poller);
    std::printf("{\"connections\": %zu, \"seconds\": %.6f}\n", connections.size(),
                seconds_since(start));
  } else {
    Load load(options);
    connect_all(connections, options, addresses->front(), poller);
    load.prepare(connections.front());
    wait_for_go();
    start = io::now();
    load.run(connections, options.requests, poller);
    std::printf("{\"requests\": %zu, \"seconds\": %.6f}\n", options.requests, seconds_since(start));
  }
  std::fflush(stdout);
  while (std::cin.get() != EOF) continue;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Load for a store server.");
  app.add_option("mode", options.mode, "what to do")
      ->required()
      ->check(CLI::IsMember({"get", "set", "add", "connect"}));
  app.add_option("--host", options.host);
  app.add_option("--port", options.port)->required();
  app.add_option("--connections", options.connections)->check(CLI::PositiveNumber);
  app.add_option("--depth", options.depth, "requests on their way on one connection")
      ->check(CLI::PositiveNumber);
  app.add_option("--requests", options.requests, "in all; a multiple of the depth");
  app.add_option("--value-bytes", options.value_bytes);
  app.add_option("--at-once", options.at_once, "connections on their way at a time")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (options.requests % options.depth != 0) die("--requests must be a multiple of --depth");
  run(options);
  return 0;
}
