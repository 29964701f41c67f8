// The coordinator's end of a session, played by a test with plain sockets. Every step has a
// generous time limit.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "base/byte_buffer.h"
#include "base/check.h"
#include "core/coordinator/messages.h"
#include "io/loop/clock.h"
#include "io/net/client_socket.h"
#include "runtime/session/session_opening.h"
#include "wire/session/session.h"

namespace regroup::runtime {

inline bool comes_within_patience(int fd) {
  constexpr int kPatienceMillis = 60'000;
  pollfd one{fd, POLLIN, 0};
  int ready = 0;
  while ((ready = ::poll(&one, 1, kPatienceMillis)) < 0 && errno == EINTR) {
  }
  return ready > 0;
}

// One connection that a session has made.
class Caller {
 public:
  explicit Caller(int fd) : fd_(fd) {}
  Caller(Caller&& other) noexcept : fd_(std::exchange(other.fd_, -1)), in_(std::move(other.in_)) {}
  ~Caller() {
    if (fd_ >= 0) ::close(fd_);
  }

  // None: the session has closed the connection, or nothing came.
  std::optional<core::coordinator::FromAgent> next() {
    for (;;) {
      auto parsed = wire::parse_frame_from_agent(in_.view());
      if (auto* whole = std::get_if<wire::WholeFrame<core::coordinator::FromAgent>>(&parsed)) {
        in_.consume(whole->size);
        return std::move(whole->message);
      }
      if (const auto* wrong = std::get_if<wire::Malformed>(&parsed)) {
        ADD_FAILURE() << wrong->reason;
        return std::nullopt;
      }
      if (!read_more()) return std::nullopt;
    }
  }

  // The next message that is no Ping.
  std::optional<core::coordinator::FromAgent> next_said() {
    for (;;) {
      auto message = next();
      if (!message || !std::holds_alternative<core::coordinator::Ping>(*message)) return message;
    }
  }

  void say(const core::coordinator::FromCoordinator& message) {
    ByteBuffer out;
    wire::append_frame(out, message);
    say_bytes(out.view());
  }
  // The session may be gone, and nothing reads these bytes.
  void say_bytes(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

 private:
  bool read_more() {
    if (!comes_within_patience(fd_)) {
      ADD_FAILURE() << "the session said nothing more";
      return false;
    }
    constexpr std::size_t kRoom = 4096;
    const auto room = in_.prepare(kRoom);
    const ssize_t got = ::recv(fd_, room.data(), room.size(), 0);
    if (got <= 0) return false;
    in_.commit(static_cast<std::size_t>(got));
    return true;
  }

  int fd_;
  ByteBuffer in_;
};

class FakeCoordinator {
 public:
  FakeCoordinator() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(::bind(fd_, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0);
    CHECK(::listen(fd_, SOMAXCONN) == 0);
    address_.size = sizeof address_.storage;
    CHECK(::getsockname(fd_, address_.get(), &address_.size) == 0);
  }
  ~FakeCoordinator() { ::close(fd_); }
  FakeCoordinator(const FakeCoordinator&) = delete;
  FakeCoordinator& operator=(const FakeCoordinator&) = delete;

  const io::Address& address() const { return address_; }

  // For SessionOptions::connect. There is no store in front of this coordinator.
  static Result<OpenedSession> connect(const io::Address& address) {
    auto socket = io::ClientSocket::connect(address, io::deadline_after(60s));
    if (!socket) return tl::unexpected(socket.error());
    return OpenedSession(std::move(*socket));
  }

  Caller accept() const {
    EXPECT_TRUE(comes_within_patience(fd_)) << "nobody called";
    return Caller(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
  }

 private:
  int fd_;
  io::Address address_;
};

}  // namespace regroup::runtime
