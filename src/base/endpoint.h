// HOST:PORT as people type it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "regroup/result.h"

namespace regroup {

struct Endpoint {
  std::string host;  // A name or a literal; an IPv6 literal stands here without brackets.
  std::uint16_t port = 0;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// "node-1:29500", "10.0.0.1:29500", "[::1]:29500".
Result<Endpoint> parse_endpoint(std::string_view text);

// As torchrun takes the endpoint of a rendezvous: blanks around it do not count, the port may be
// missing, and nothing at all is localhost. Port 0 is taken: a host may ask for any free port.
//
// Unlike torchrun's, an IPv6 literal needs no brackets, and is then taken whole: "fd00::2:8080" is
// a host, as it is in every other program. "fd00::2:29400" can only be a host and a port.
Result<Endpoint> parse_endpoint(std::string_view text, std::uint16_t default_port);

// "::1", "fe80::1%eth0", "::ffff:10.0.0.1"; without brackets.
bool is_ipv6_literal(std::string_view text);

}  // namespace regroup
