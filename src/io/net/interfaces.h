// The addresses of this machine, and whether an address is one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/net/address.h"
#include "regroup/result.h"

namespace regroup::io {

// Of every interface, up or down, IPv4 and IPv6, each once; with port 0.
Result<std::vector<Address>> local_addresses();

// Whether the address is one of `local`, whatever the ports. An IPv4 address mapped into IPv6 is
// that IPv4 address. Scope ids count only where both have one. Loopback is always local.
bool is_local(const Address& address, const std::vector<Address>& local);

bool is_loopback(const Address& address);    // 127.0.0.0/8, ::1, ::ffff:127.0.0.0/104
bool is_wildcard(const Address& address);    // 0.0.0.0, ::
bool is_link_local(const Address& address);  // 169.254.0.0/16, fe80::/10

// The address that a text spells out; empty for a name. Makes no lookup.
std::optional<Address> literal_address(const std::string& host, std::uint16_t port = 0);

// "10.0.0.1", "fe80::1%eth0": without the port, and a mapped IPv4 address as plain IPv4.
std::string host_text(const Address& address);

// As this machine calls itself, by gethostname(). Other machines may not know the name.
std::string host_name();

}  // namespace regroup::io
