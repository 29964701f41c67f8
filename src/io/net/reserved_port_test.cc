#include "io/net/reserved_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "io/loop/clock.h"
#include "io/net/client_socket.h"
#include "io/net/connection.h"
#include "io/net/listener.h"

namespace regroup::io {
namespace {

Instant soon() { return deadline_after(30s); }

class Socket {
 public:
  explicit Socket(int family) : fd_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

  void reuse_address() const {
    const int on = 1;
    ASSERT_EQ(::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
  }
  bool bind(const std::string& host, std::uint16_t port) const {
    const Address address = resolve(host, port, soon())->front();
    return ::bind(fd_, address.get(), address.size) == 0;
  }
  std::uint16_t port() const {
    Address address;
    address.size = sizeof address.storage;
    ::getsockname(fd_, address.get(), &address.size);
    return address.port();
  }

 private:
  int fd_;
};

TEST(ReservedPort, LetsAServerListenAgainAndAgain) {
  const auto reserved = ReservedPort::open();
  ASSERT_TRUE(reserved) << reserved.error().message;
  const auto loop = std::move(*Loop::open());
  for (const char* host : {"::", "0.0.0.0", "127.0.0.1"}) {
    const auto server = Listener::open(*loop, host, reserved->port());
    ASSERT_TRUE(server) << server.error().message;
    const auto address = resolve("127.0.0.1", reserved->port(), soon());
    EXPECT_TRUE(ClientSocket::connect(address->front(), soon())) << host;
    // Two servers are one too many, reserved or not.
    EXPECT_FALSE(Listener::open(*loop, host, reserved->port()));
  }
}

TEST(ReservedPort, LetsAServerGoOnWhenItIsGivenBack) {
  const auto loop = std::move(*Loop::open());
  auto reserved = ReservedPort::open();
  const std::uint16_t port = reserved->port();
  const auto server = Listener::open(*loop, "::", port);
  ASSERT_TRUE(server);
  { const ReservedPort gone = std::move(*reserved); }
  EXPECT_TRUE(ClientSocket::connect(resolve("127.0.0.1", port, soon())->front(), soon()));
}

TEST(ReservedPort, RefusesConnectionsWhileNobodyListens) {
  const auto reserved = ReservedPort::open();
  const auto address = resolve("127.0.0.1", reserved->port(), soon());
  EXPECT_EQ(ClientSocket::connect(address->front(), soon()).error().kind, ErrorKind::Connection);
}

TEST(ReservedPort, IsRefusedToWhoeverDoesNotReuseAddresses) {
  const auto reserved = ReservedPort::open();
  EXPECT_FALSE(Socket(AF_INET).bind("127.0.0.1", reserved->port()));
  EXPECT_EQ(errno, EADDRINUSE);
}

// Asks the kernel for any port of a range that holds just the reserved one. Empty: this kernel
// (before 6.3) cannot be asked so.
std::optional<bool> bind_in_range_of(std::uint16_t port, const char* host, bool reuse) {
  constexpr int kIpLocalPortRange = 51;  // Missing in older headers.
  const Socket socket(AF_INET);
  if (reuse) socket.reuse_address();
  const std::uint32_t range = std::uint32_t{port} << 16 | port;
  if (::setsockopt(socket.fd(), IPPROTO_IP, kIpLocalPortRange, &range, sizeof range) != 0)
    return {};
  return socket.bind(host, 0);
}

TEST(ReservedPort, IsNotWhatTheKernelGivesToOthersEvenIfItIsTheOnlyOne) {
  const auto reserved = ReservedPort::open();
  for (const char* host : {"127.0.0.1", "0.0.0.0"})
    for (const bool reuse : {false, true}) {
      const auto given = bind_in_range_of(reserved->port(), host, reuse);
      if (!given) GTEST_SKIP() << "needs Linux 6.3 (IP_LOCAL_PORT_RANGE)";
      EXPECT_FALSE(*given) << host << (reuse ? ", reusing addresses" : "");
    }
}

TEST(ReservedPort, IsNeverAmongManyPortsThatTheKernelGives) {
  const auto reserved = ReservedPort::open();
  constexpr std::size_t kMany = 2000;
  constexpr std::size_t kAtOnce = 500;  // All at once would need more descriptors than some allow.
  for (std::size_t done = 0; done < kMany; done += kAtOnce) {
    std::vector<Socket> held;
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      const Socket& one = held.emplace_back(AF_INET);
      if (i % 2 == 0) one.reuse_address();
      ASSERT_TRUE(one.bind(i % 4 < 2 ? "127.0.0.1" : "0.0.0.0", 0));
      ASSERT_NE(one.port(), reserved->port());
    }
  }
}

TEST(ReservedPort, IsAnotherEveryTime) {
  const auto first = ReservedPort::open();
  const auto second = ReservedPort::open();
  EXPECT_NE(first->port(), 0);
  EXPECT_NE(first->port(), second->port());
}

}  // namespace
}  // namespace regroup::io
