#include "io/net/listener.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "io/loop/clock.h"
#include "io/loop/descriptor.h"
#include "io/loop/limits.h"
#include "io/loop/ready_set.h"
#include "io/net/port_holder.h"
#include "io/net/tcp_connection.h"

namespace regroup::io {
namespace {

struct Bound {
  Descriptor socket;
  Address address;
};

std::string describe_bind_failure(const Address& address, int error) {
  std::string message = "cannot listen on " + address.text() + ": ";
  switch (error) {
    case EADDRINUSE:
      return message + kTakenBySomebody + ". Stop it, or use another port.";
    case EADDRNOTAVAIL:
      return message +
             "no interface of this machine has that address. Use one of its own addresses, or :: "
             "for all of them.";
    case EACCES:
      return message + "ports below 1024 are reserved. Use a higher one.";
    default:
      return message + std::strerror(error);
  }
}

// Leaves errno as it was, for a caller that can go on without this address.
tl::unexpected<Error> bind_failure(const Address& address, int error) {
  auto failure = fail(ErrorKind::Io, describe_bind_failure(address, error));
  errno = error;
  return failure;
}

bool has_ipv6() { return bool(Descriptor(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0))); }

Result<Bound> bind_one(Address address) {
  Descriptor socket(
      ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!socket) return bind_failure(address, errno);
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.family() == AF_INET6) {
    const int only_v6 = 0;
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
  }
  // The kernel cuts the backlog to net.core.somaxconn.
  if (::bind(socket.get(), address.get(), address.size) != 0 || ::listen(socket.get(), 65535) != 0)
    return bind_failure(address, errno);
  address.size = sizeof address.storage;
  ::getsockname(socket.get(), address.get(), &address.size);
  return Bound{std::move(socket), address};
}

Result<std::vector<Bound>> bind_all(const std::vector<Address>& addresses, std::uint16_t port) {
  std::vector<Bound> bound;
  for (Address address : addresses) {
    // The first address chooses the port, if none was given.
    address.set_port(bound.empty() ? port : bound.front().address.port());
    auto one = bind_one(address);
    // A name such as localhost may stand for ::1 on a machine without IPv6.
    const bool unusable = !one && (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT);
    if (unusable && address.family() == AF_INET6 && addresses.size() > 1) continue;
    if (!one) return tl::unexpected(one.error());
    bound.push_back(std::move(*one));
  }
  if (bound.empty()) return fail(ErrorKind::Io, "cannot listen: no address can be used");
  return bound;
}

// One bound address.
class Acceptor final : private Watcher {
 public:
  Acceptor(Loop& loop, Bound bound)
      : loop_(loop), socket_(std::move(bound.socket)), address_(bound.address), retry_(loop) {}
  ~Acceptor() override { loop_.sockets().remove(socket_.get(), *this); }

  const Address& address() const { return address_; }

  void start(const Listener::OnConnection& on_connection, const Listener::OnTrouble& on_trouble) {
    on_connection_ = on_connection;
    on_trouble_ = on_trouble;
    CHECK(loop_.sockets().add(socket_.get(), EPOLLIN, *this));
  }

 private:
  // Accepts all that are in the queue, in one turn: a job's ranks come all at once.
  void ready(std::uint32_t) override {
    for (int n = 0; n < kAcceptsInOneTurn; ++n) {
      Address peer;
      peer.size = sizeof peer.storage;
      Descriptor socket(
          ::accept4(socket_.get(), peer.get(), &peer.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket) {
        on_connection_(adopt_connection(loop_, std::move(socket), peer));
        continue;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      // Out of descriptors or memory. The queue would wake us at once, without use: wait a little.
      on_trouble_(std::string("cannot accept a connection: ") + std::strerror(errno) +
                  (errno == EMFILE ? ". Raise the limit on open files (ulimit -n)." : ""));
      loop_.sockets().change(socket_.get(), 0, *this);
      retry_.set(now() + 100ms, [this] { loop_.sockets().change(socket_.get(), EPOLLIN, *this); });
      return;
    }
  }

  Loop& loop_;
  Descriptor socket_;
  Address address_;
  Timer retry_;
  Listener::OnConnection on_connection_;
  Listener::OnTrouble on_trouble_;
};

class TcpListener final : public Listener {
 public:
  TcpListener(Loop& loop, std::vector<Bound> bound) {
    for (Bound& one : bound) acceptors_.push_back(std::make_unique<Acceptor>(loop, std::move(one)));
  }

  void start(OnConnection on_connection, OnTrouble on_trouble) override {
    for (const auto& acceptor : acceptors_) acceptor->start(on_connection, on_trouble);
  }

  std::uint16_t port() const override { return acceptors_.front()->address().port(); }

  std::vector<std::string> addresses() const override {
    std::vector<std::string> texts;
    texts.reserve(acceptors_.size());
    for (const auto& acceptor : acceptors_) texts.push_back(acceptor->address().text());
    return texts;
  }

 private:
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
};

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(Loop& loop, const std::string& host,
                                                 std::uint16_t port, Duration resolve_limit) {
  if (host == "::" && !has_ipv6()) return open(loop, "0.0.0.0", port, resolve_limit);
  auto addresses = resolve(host, port, deadline_after(resolve_limit));
  if (!addresses) return tl::unexpected(addresses.error());
  auto bound = bind_all(*addresses, port);
  // The port that was free for the first address may be taken for the second.
  for (int tries = 0; !bound && port == 0 && addresses->size() > 1 && tries < 16; ++tries)
    bound = bind_all(*addresses, port);
  if (!bound) return tl::unexpected(bound.error());
  return std::make_unique<TcpListener>(loop, std::move(*bound));
}

}  // namespace regroup::io
