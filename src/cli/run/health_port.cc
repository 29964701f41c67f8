#include "cli/run/health_port.h"

#include <fmt/core.h>

#include "base/endpoint.h"
#include "base/seconds.h"
#include "base/text.h"
#include "base/text_parts.h"

namespace regroup::cli {
namespace {

constexpr const char* kVariable = "TORCHELASTIC_HEALTH_CHECK_PORT";
constexpr std::int64_t kHighestPort = 65535;

std::optional<std::uint16_t> port_of(std::string_view text) {
  const auto number = python_int(text);
  if (!number || *number < 0 || *number > kHighestPort) return {};
  return static_cast<std::uint16_t>(*number);
}

}  // namespace

Result<HealthOptions> parse_health_port(const std::string& text) {
  const auto wrong = [&] {
    return fail(ErrorKind::InvalidArgument,
                "is " + printable(text) +
                    "; it takes a port for all addresses (8080), or an address and a port "
                    "(127.0.0.1:8080, [::1]:8080). 0 is any free port");
  };
  const std::size_t colon = text.rfind(':');
  const std::string_view digits =
      std::string_view(text).substr(colon == std::string::npos ? 0 : colon + 1);
  const auto port = port_of(digits);
  // Without brackets it is not clear where the address ends.
  if (!is_all_digits(digits) || !port || is_ipv6_literal(text)) return wrong();
  HealthOptions options;
  options.port = *port;
  if (colon == std::string::npos || colon == 0) return options;
  const auto endpoint = parse_endpoint(text, *port);
  if (!endpoint || endpoint->host.empty()) return wrong();
  options.address = endpoint->host;
  return options;
}

Result<std::optional<HealthOptions>> choose_health_port(const RunFlags& flags, const char* variable,
                                                        std::vector<std::string>& notes) {
  std::optional<HealthOptions> options;
  if (!(flags.health_limit > 0))
    return fail(ErrorKind::InvalidArgument,
                flags.named("health-limit") + " is 0; it takes seconds, more than 0");
  if (!flags.health_port.empty()) {
    auto parsed = parse_health_port(flags.health_port);
    if (!parsed)
      return fail(ErrorKind::InvalidArgument,
                  flags.named("health-port") + " " + parsed.error().message);
    options = std::move(*parsed);
  } else if (variable != nullptr) {
    const auto port = port_of(variable);
    if (!port) {
      notes.push_back(fmt::format("{} is {}, which is no port: there is no health port", kVariable,
                                  printable(variable)));
      return options;
    }
    options.emplace();
    options->port = *port;
    options->required = false;
  }
  if (options) options->limit = from_seconds(flags.health_limit);
  return options;
}

}  // namespace regroup::cli
