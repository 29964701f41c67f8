#include "io/net/client_socket.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "io/loop/clock.h"
#include "io/net/keep_alive.h"

namespace regroup::io {
namespace {

Result<void> wait_for(int fd, short events, Instant deadline, const char* what) {
  for (;;) {
    const Duration left = std::max(deadline - now(), Duration{});
    // Rounded up, so that we do not wake just before the deadline and spin.
    const auto millis = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    pollfd one{fd, events, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::min<long long>(millis, INT_MAX)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail(ErrorKind::Io, std::strerror(errno));
    if (ready == 0 && now() >= deadline)
      return fail(ErrorKind::Timeout, std::string(what) + ": the time limit passed");
  }
}

}  // namespace

Result<ClientSocket> ClientSocket::connect(const Address& address, Instant deadline) {
  const auto refused = [&](int error) {
    return fail(ErrorKind::Connection,
                fmt::format("cannot connect to {}: {}", address.text(), std::strerror(error)));
  };
  Descriptor made(
      ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!made) return refused(errno);
  const int fd = made.get();
  ClientSocket socket(std::move(made));
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  keep_alive(fd);
  if (::connect(fd, address.get(), address.size) == 0) return socket;
  if (errno != EINPROGRESS) return refused(errno);
  if (auto done = wait_for(fd, POLLOUT, deadline, "connect"); !done)
    return fail(done.error().kind, "cannot connect to " + address.text() + ": no answer in time");
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return refused(error);
  return socket;
}

Result<void> ClientSocket::send(std::string_view bytes, Instant deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return fail(ErrorKind::Connection, std::strerror(errno));
    if (auto ready = wait_for(socket_.get(), POLLOUT, deadline, "send"); !ready) return ready;
  }
  return {};
}

Result<std::size_t> ClientSocket::receive(std::span<char> room, Instant deadline) {
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), room.data(), room.size(), 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) return fail(ErrorKind::Connection, "the peer closed the connection");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return fail(ErrorKind::Connection, std::strerror(errno));
    if (auto ready = wait_for(socket_.get(), POLLIN, deadline, "receive"); !ready)
      return tl::unexpected(ready.error());
  }
}

// It fails for a connection that the peer has reset already, and then there is nothing left to end.
void ClientSocket::shut_down() { ::shutdown(socket_.get(), SHUT_RDWR); }

Address ClientSocket::local_address() const {
  Address address;
  address.size = sizeof address.storage;
  // For a socket that was connected it cannot fail.
  CHECK(::getsockname(socket_.get(), address.get(), &address.size) == 0);
  return address;
}

}  // namespace regroup::io
