#include "base/endpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.h"
#include "base/text_parts.h"

namespace regroup {
namespace {

// Not those of <cctype>: they follow the locale, and a name on the wire does not.
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool may_stand_in_name(char c) { return is_word(c) || c == '.' || c == '-'; }

bool is_ipv4_literal(std::string_view text) {
  for (int part = 0; part < 4; ++part) {
    const auto end = part < 3 ? text.find('.') : text.size();
    if (end == 0 || end > 3) return false;  // npos too.
    int value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + end, value);
    if (parsed.ptr != text.data() + end || value < 0 || value > 255) return false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

// How many 16-bit groups stand there, with colons between them; empty if something else does.
std::optional<int> count_groups(std::string_view text, bool may_end_in_ipv4) {
  if (text.empty()) return 0;
  for (int groups = 1;; ++groups) {
    const auto colon = text.find(':');
    const std::string_view group = text.substr(0, colon);
    const bool last = colon == std::string_view::npos;
    if (last && may_end_in_ipv4 && is_ipv4_literal(group)) return groups + 1;
    if (group.empty() || group.size() > 4 || !std::all_of(group.begin(), group.end(), is_hex))
      return {};
    if (last) return groups;
    text.remove_prefix(colon + 1);
  }
}

struct Parts {
  std::string_view host;
  std::optional<std::string_view> port = {};
};

// Where the host ends and the port begins, or why that cannot be told.
tl::expected<Parts, std::string> split(std::string_view text, bool brackets_needed) {
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return tl::unexpected<std::string>("the ']' is missing");
    const Parts inside{text.substr(1, close - 1)};
    if (!is_ipv6_literal(inside.host))
      return tl::unexpected<std::string>("what stands in brackets is no IPv6 address");
    const std::string_view rest = text.substr(close + 1);
    if (rest.empty()) return inside;
    if (rest.front() != ':') return tl::unexpected<std::string>("only a port may follow the ']'");
    return Parts{inside.host, rest.substr(1)};
  }
  if (!brackets_needed && is_ipv6_literal(text)) return Parts{text};
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return Parts{text};
  const Parts parts{text.substr(0, colon), text.substr(colon + 1)};
  if (parts.host.find(':') == std::string_view::npos) return parts;
  if (brackets_needed || !is_ipv6_literal(parts.host))
    return tl::unexpected<std::string>("an IPv6 address must stand in brackets");
  return parts;
}

std::string find_fault(std::string_view host) {
  if (host.empty()) return "the host is missing";
  if (is_ipv6_literal(host)) return {};
  const auto wrong =
      std::find_if_not(host.begin(), host.end(), [](char c) { return may_stand_in_name(c); });
  if (wrong == host.end()) return {};
  return printable({&*wrong, 1}) + " cannot stand in a host's name";
}

std::optional<std::uint16_t> parse_port(std::string_view digits) {
  constexpr std::size_t kMostDigits = 5;
  if (digits.size() > kMostDigits) return {};
  return to_number<std::uint16_t>(digits);
}

}  // namespace

bool is_ipv6_literal(std::string_view text) {
  if (const auto percent = text.find('%'); percent != std::string_view::npos) {
    const std::string_view scope = text.substr(percent + 1);
    if (scope.empty() || !std::all_of(scope.begin(), scope.end(), may_stand_in_name)) return false;
    text = text.substr(0, percent);
  }
  constexpr int kGroups = 8;
  const auto gap = text.find("::");
  if (gap == std::string_view::npos) return count_groups(text, true) == kGroups;
  const auto before = count_groups(text.substr(0, gap), false);
  const auto after = count_groups(text.substr(gap + 2), true);
  return before && after && *before + *after < kGroups;
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  const auto wrong = [&](const std::string& why) {
    return fail(ErrorKind::InvalidArgument,
                fmt::format("{} is no HOST:PORT: {}. Write it like node-1:29500 or [::1]:29500",
                            printable(text), why));
  };
  const auto parts = split(text, true);
  if (!parts) return wrong(parts.error());
  if (const std::string fault = find_fault(parts->host); !fault.empty()) return wrong(fault);
  if (!parts->port) return wrong("the port is missing");
  const auto port = parse_port(*parts->port);
  if (!port || *port == 0) return wrong("the port must be a number from 1 to 65535");
  return Endpoint{std::string(parts->host), *port};
}

Result<Endpoint> parse_endpoint(std::string_view text, std::uint16_t default_port) {
  const auto wrong = [&](const std::string& why) {
    return fail(ErrorKind::InvalidArgument,
                fmt::format("{} is no endpoint: {}. Write HOST or HOST:PORT, like node-1:29400, "
                            "10.0.0.1 or [fd00::1]:29400",
                            printable(text), why));
  };
  const std::string_view endpoint = trimmed(text);
  if (endpoint.empty()) return Endpoint{"localhost", default_port};
  const auto parts = split(endpoint, false);
  if (!parts) return wrong(parts.error());
  if (const std::string fault = find_fault(parts->host); !fault.empty()) return wrong(fault);
  if (!parts->port) return Endpoint{std::string(parts->host), default_port};
  const auto port = parse_port(*parts->port);
  if (!port) return wrong("the port must be a number from 0 to 65535");
  return Endpoint{std::string(parts->host), *port};
}

}  // namespace regroup
