#include "io/net/address.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "io/loop/thread_name.h"

namespace regroup::io {
namespace {

using Addresses = Result<std::vector<Address>>;

Addresses look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0)
    return fail(ErrorKind::Connection,
                fmt::format("cannot resolve '{}': {}", host, gai_strerror(error)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    Address address;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
    address.set_port(port);
    const auto same = [&](const Address& other) { return other.text() == address.text(); };
    if (std::none_of(addresses.begin(), addresses.end(), same)) addresses.push_back(address);
  }
  if (addresses.empty())
    return fail(ErrorKind::Connection, "'" + host + "' has neither an IPv4 nor an IPv6 address");
  return addresses;
}

Addresses look_up_name(const std::string& host, std::uint16_t port) {
  auto found = look_up(host, port, 0);
  // A bare container has no /etc/hosts, but this name is clear without it.
  if (!found && host == "localhost") return look_up("127.0.0.1", port, AI_NUMERICHOST);
  return found;
}

}  // namespace

std::uint16_t Address::port() const {
  if (family() == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

void Address::set_port(std::uint16_t port) {
  if (family() == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
}

std::string Address::text() const {
  char host[NI_MAXHOST];
  if (getnameinfo(get(), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    return "unknown";
  return join_host_port(host, port());
}

std::string join_host_port(std::string_view host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string_view::npos;
  std::string joined;
  if (v6) joined += '[';
  joined += host;
  if (v6) joined += ']';
  return fmt::format("{}:{}", joined, port);
}

Addresses resolve(const std::string& host, std::uint16_t port, Instant deadline) {
  if (auto literal = look_up(host, port, AI_NUMERICHOST); literal) return literal;
  std::promise<Addresses> promise;
  auto answer = promise.get_future();
  try {
    std::thread([host, port, promise = std::move(promise)]() mutable {
      name_this_thread("name lookup");
      promise.set_value(look_up_name(host, port));
    }).detach();
  } catch (const std::system_error& error) {
    return fail(ErrorKind::Io,
                fmt::format("cannot resolve '{}': no thread for it, {}", host, error.what()));
  }
  const std::chrono::steady_clock::time_point until(deadline.since_start);
  if (answer.wait_until(until) != std::future_status::ready)
    return fail(ErrorKind::Timeout,
                "cannot resolve '" + host + "': no answer from the name service");
  return answer.get();
}

}  // namespace regroup::io
