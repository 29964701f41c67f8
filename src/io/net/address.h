// Addresses of sockets, and how names become addresses.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/instant.h"
#include "regroup/result.h"

namespace regroup::io {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  std::string text() const;  // "10.0.0.1:29500", "[::1]:29500"
};

// A host and a port as people write them: for an IPv6 literal the host is put in brackets.
std::string join_host_port(std::string_view host, std::uint16_t port);

// The addresses of a host, in the resolver's order, each once. A literal is answered at once; a
// name is looked up on a thread of its own, because the resolver has no deadline.
Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port, Instant deadline);

}  // namespace regroup::io
