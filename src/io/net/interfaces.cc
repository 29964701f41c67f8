#include "io/net/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace regroup::io {
namespace {

// Every address in one form: IPv4 is written as IPv6 writes it.
struct Plain {
  std::array<std::uint8_t, 16> bytes{};
  std::uint32_t scope = 0;

  bool is_mapped_ipv4() const {
    static constexpr std::array<std::uint8_t, 12> kPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::equal(kPrefix.begin(), kPrefix.end(), bytes.begin());
  }
  bool starts_with_zeros(std::size_t count) const {
    return std::all_of(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count),
                       [](std::uint8_t byte) { return byte == 0; });
  }
};

Plain plain(const Address& address) {
  Plain result;
  if (address.family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    std::memcpy(result.bytes.data(), &v6->sin6_addr, result.bytes.size());
    result.scope = v6->sin6_scope_id;
  } else {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    result.bytes[10] = result.bytes[11] = 0xff;
    std::memcpy(&result.bytes[12], &v4->sin_addr, sizeof v4->sin_addr);
  }
  return result;
}

bool same(const Plain& a, const Plain& b) {
  const bool scopes_differ = a.scope != 0 && b.scope != 0 && a.scope != b.scope;
  return a.bytes == b.bytes && !scopes_differ;
}

}  // namespace

Result<std::vector<Address>> local_addresses() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0)
    return fail(ErrorKind::Io, std::string("cannot list this machine's network interfaces: ") +
                                   std::strerror(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(found, ::freeifaddrs);
  std::vector<Address> addresses;
  for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    Address address;
    switch (one->ifa_addr->sa_family) {
      case AF_INET:
        address.size = sizeof(sockaddr_in);
        break;
      case AF_INET6:
        address.size = sizeof(sockaddr_in6);
        break;
      default:
        continue;
    }
    std::memcpy(&address.storage, one->ifa_addr, address.size);
    if (!std::any_of(addresses.begin(), addresses.end(),
                     [&](const Address& other) { return other.text() == address.text(); }))
      addresses.push_back(address);
  }
  return addresses;
}

bool is_local(const Address& address, const std::vector<Address>& local) {
  if (is_loopback(address)) return true;
  const Plain wanted = plain(address);
  return std::any_of(local.begin(), local.end(),
                     [&](const Address& own) { return same(plain(own), wanted); });
}

bool is_loopback(const Address& address) {
  const Plain p = plain(address);
  if (p.is_mapped_ipv4()) return p.bytes[12] == 127;
  return p.starts_with_zeros(15) && p.bytes[15] == 1;
}

bool is_wildcard(const Address& address) {
  const Plain p = plain(address);
  if (p.is_mapped_ipv4()) return std::count(p.bytes.begin() + 12, p.bytes.end(), 0) == 4;
  return p.starts_with_zeros(16);
}

bool is_link_local(const Address& address) {
  const Plain p = plain(address);
  if (p.is_mapped_ipv4()) return p.bytes[12] == 169 && p.bytes[13] == 254;
  return p.bytes[0] == 0xfe && (p.bytes[1] & 0xc0) == 0x80;
}

std::optional<Address> literal_address(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  address.set_port(port);
  return address;
}

std::string host_text(const Address& address) {
  const Plain p = plain(address);
  char text[NI_MAXHOST];
  if (p.is_mapped_ipv4())
    return ::inet_ntop(AF_INET, &p.bytes[12], text, sizeof text) != nullptr ? text : "unknown";
  // Unlike inet_ntop it knows how a scope is written.
  if (::getnameinfo(address.get(), address.size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) !=
      0)
    return "unknown";
  return text;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1];
  // A name that does not fit may come without a terminating zero.
  if (::gethostname(name, sizeof name) != 0) return {};
  name[sizeof name - 1] = '\0';
  return name;
}

}  // namespace regroup::io
