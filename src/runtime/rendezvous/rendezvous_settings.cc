#include "runtime/rendezvous/rendezvous_settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/nearest.h"
#include "base/text.h"
#include "base/text_parts.h"
#include "runtime/common/log.h"

namespace regroup {
namespace {

std::string lower(std::string_view text) {
  std::string copy(text);
  for (char& c : copy)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return copy;
}

auto wrong_value(std::string_view key, std::string_view value, std::string_view wanted) {
  return fail(
      ErrorKind::InvalidArgument,
      fmt::format("the rendezvous option {} is {}; it must be {}", key, printable(value), wanted));
}

}  // namespace

std::optional<std::string> RendezvousParameters::text(std::string_view key) const {
  const auto found = config.find(std::string(key));
  if (found == config.end()) return std::nullopt;
  return found->second;
}

Result<std::optional<std::int64_t>> RendezvousParameters::integer(std::string_view key) const {
  const auto value = text(key);
  if (!value) return std::nullopt;
  const auto number = python_int(*value);
  if (!number) return wrong_value(key, *value, "a whole number");
  return number;
}

Result<std::optional<bool>> RendezvousParameters::boolean(std::string_view key) const {
  const auto value = text(key);
  if (!value) return std::nullopt;
  constexpr std::array<std::string_view, 5> kTrue{"1", "true", "t", "yes", "y"};
  constexpr std::array<std::string_view, 5> kFalse{"0", "false", "f", "no", "n"};
  const std::string word = lower(trimmed(*value));
  if (std::find(kTrue.begin(), kTrue.end(), word) != kTrue.end()) return true;
  if (std::find(kFalse.begin(), kFalse.end(), word) != kFalse.end()) return false;
  return wrong_value(key, *value, "true or false");
}

Result<std::map<std::string, std::string>> parse_rendezvous_config(std::string_view text) {
  std::map<std::string, std::string> config;
  std::string_view rest = trimmed(text);
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string_view pair = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const auto equals = pair.find('=');
    const std::string_view key = trimmed(pair.substr(0, equals));
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : trimmed(pair.substr(equals + 1));
    const bool ends_in_comma = comma != std::string_view::npos && rest.empty();
    if (key.empty() || ends_in_comma)
      return fail(ErrorKind::InvalidArgument,
                  "the rendezvous configuration " + printable(text) +
                      " must be KEY=VALUE pairs with commas between them");
    if (value.empty())
      return fail(ErrorKind::InvalidArgument,
                  fmt::format("the rendezvous option {} has no value; write {}=VALUE",
                              printable(key), key));
    config[std::string(key)] = std::string(value);
  }
  return config;
}

namespace runtime {

using core::rendezvous::Settings;

const std::vector<std::string>& settings_keys() {
  static const std::vector<std::string> keys{"join_timeout",        "last_call_timeout",
                                             "close_timeout",       "heartbeat_timeout",
                                             "keep_alive_interval", "keep_alive_max_attempt"};
  return keys;
}

Result<Settings> settings_of(const RendezvousParameters& parameters) {
  Settings settings;
  settings.run_id = parameters.run_id;
  settings.min_nodes = parameters.min_nodes;
  settings.max_nodes = parameters.max_nodes;
  const std::pair<const char*, Duration*> durations[] = {
      {"join_timeout", &settings.join_timeout},
      {"last_call_timeout", &settings.last_call_timeout},
      {"close_timeout", &settings.close_timeout},
      {"heartbeat_timeout", &settings.heartbeat_timeout},
      {"keep_alive_interval", &settings.keep_alive_interval},
  };
  for (const auto& [key, duration] : durations) {
    const auto seconds = parameters.integer(key);
    if (!seconds) return tl::unexpected(seconds.error());
    if (!*seconds) continue;
    constexpr std::int64_t kMost =
        std::chrono::duration_cast<std::chrono::seconds>(core::rendezvous::kLongest).count();
    *duration = std::chrono::seconds(std::clamp(**seconds, -kMost, kMost));
  }
  const auto attempts = parameters.integer("keep_alive_max_attempt");
  if (!attempts) return tl::unexpected(attempts.error());
  if (*attempts) settings.keep_alive_attempts = std::min<std::int64_t>(**attempts, 1'000'000);
  if (parameters.node_rank && *parameters.node_rank < 0)
    return fail(ErrorKind::InvalidArgument,
                fmt::format("the node rank is {}; ranks start at 0", *parameters.node_rank));
  if (auto good = core::rendezvous::validate(settings); !good) return tl::unexpected(good.error());
  return settings;
}

RendezvousSettings public_settings(const Settings& settings) {
  return {.run_id = settings.run_id,
          .min_nodes = settings.min_nodes,
          .max_nodes = settings.max_nodes,
          .join_timeout = settings.join_timeout,
          .last_call_timeout = settings.last_call_timeout,
          .close_timeout = settings.close_timeout,
          .heartbeat_timeout = settings.heartbeat_timeout,
          .keep_alive_interval = settings.keep_alive_interval,
          .keep_alive_max_attempt = settings.keep_alive_attempts};
}

Result<void> check_groups(const RendezvousParameters& parameters, std::int64_t segment) {
  constexpr std::size_t kLongestKey = 1024;
  if (parameters.topology_key.size() > kLongestKey)
    return fail(ErrorKind::InvalidArgument,
                fmt::format("--topology-key has {} bytes; the limit is {}",
                            parameters.topology_key.size(), kLongestKey));
  if (segment == 0) return {};
  const std::string given = fmt::format("--segment is {}", segment);
  if (segment < 0) return fail(ErrorKind::InvalidArgument, given + "; it must be 1 or more");
  if (parameters.backend == "static")
    return fail(ErrorKind::InvalidArgument,
                given +
                    ", but with the static backend all nodes are in from the beginning. Pass "
                    "--rdzv-backend c10d");
  if (parameters.topology_key.empty())
    return fail(ErrorKind::InvalidArgument,
                given + ", but this node does not say which group it is in. Pass --topology-key");
  if (parameters.min_nodes % segment != 0 || parameters.max_nodes % segment != 0)
    return fail(ErrorKind::InvalidArgument,
                fmt::format("{}, and --nnodes must be multiples of it; it is {}:{}", given,
                            parameters.min_nodes, parameters.max_nodes));
  return {};
}

Result<StoreType> store_type_of(const RendezvousParameters& parameters) {
  const std::string type = parameters.text("store_type").value_or("tcp");
  if (lower(type) == "tcp") return StoreType::Tcp;
  if (lower(type) == "file") return StoreType::File;
  return wrong_value("store_type", type, "tcp or file");
}

void warn_of_unknown_keys(const RendezvousParameters& parameters,
                          const std::vector<std::string>& known) {
  for (const auto& [key, value] : parameters.config) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const auto meant = nearest(key, known);
    log_warning(fmt::format("the {} rendezvous knows no option {}; it is ignored{}",
                            parameters.backend, printable(key),
                            meant ? ". Did you mean " + *meant + "?" : ""));
  }
}

}  // namespace runtime
}  // namespace regroup
