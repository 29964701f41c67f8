#include "io/net/reserved_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "io/net/address.h"

namespace regroup::io {
namespace {

// Port 0 of every address of the family.
Address wildcard(int family) {
  Address address;
  address.storage.ss_family = static_cast<sa_family_t>(family);
  address.size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return address;
}

// None: errno says why.
Descriptor bind_wildcard(int family) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) return socket;
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) {
    const int only_v6 = 0;
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
  }
  const Address any = wildcard(family);
  if (::bind(socket.get(), any.get(), any.size) != 0) return Descriptor();
  return socket;
}

}  // namespace

Result<ReservedPort> ReservedPort::open() {
  Descriptor socket = bind_wildcard(AF_INET6);
  if (!socket && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) socket = bind_wildcard(AF_INET);
  if (!socket)
    return fail(ErrorKind::Io, std::string("cannot reserve a port: ") + std::strerror(errno) +
                                   (errno == EADDRINUSE ? ". All ports of the range in "
                                                          "net.ipv4.ip_local_port_range are taken."
                                                        : ""));
  Address bound;
  bound.size = sizeof bound.storage;
  ::getsockname(socket.get(), bound.get(), &bound.size);
  return ReservedPort(std::move(socket), bound.port());
}

}  // namespace regroup::io
