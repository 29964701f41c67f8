#include "io/net/reserved_port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

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

// The descriptor, or -1 and errno.
int bind_wildcard(int family) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
  if (fd < 0) return -1;
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) {
    const int only_v6 = 0;
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
  }
  const Address any = wildcard(family);
  if (::bind(fd, any.get(), any.size) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

}  // namespace

Result<ReservedPort> ReservedPort::open() {
  int fd = bind_wildcard(AF_INET6);
  if (fd < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) fd = bind_wildcard(AF_INET);
  if (fd < 0)
    return fail(ErrorKind::Io, std::string("cannot reserve a port: ") + std::strerror(errno) +
                                   (errno == EADDRINUSE ? ". All ports of the range in "
                                                          "net.ipv4.ip_local_port_range are taken."
                                                        : ""));
  Address bound;
  bound.size = sizeof bound.storage;
  ::getsockname(fd, bound.get(), &bound.size);
  return ReservedPort(fd, bound.port());
}

ReservedPort::ReservedPort(ReservedPort&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), port_(other.port_) {}

ReservedPort& ReservedPort::operator=(ReservedPort&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(port_, other.port_);
  return *this;
}

ReservedPort::~ReservedPort() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace regroup::io
