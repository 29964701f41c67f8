#include "cli/endpoint.h"

#include <charconv>

namespace regroup::cli {

Result<Endpoint> parse_endpoint(std::string_view text) {
  const auto wrong = [&](const std::string& why) {
    return fail(ErrorKind::InvalidArgument, "'" + std::string(text) + "' is no HOST:PORT: " + why +
                                                ". Write it like node-1:29500 or [::1]:29500");
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong("the port is missing");
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    return wrong("an IPv6 address must stand in brackets");
  if (host.empty()) return wrong("the host is missing");
  Endpoint endpoint{std::string(host), 0};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), endpoint.port);
  if (error != std::errc{} || end != digits.data() + digits.size() || endpoint.port == 0)
    return wrong("the port must be a number from 1 to 65535");
  return endpoint;
}

}  // namespace regroup::cli
