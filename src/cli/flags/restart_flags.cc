#include "cli/flags/restart_flags.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/seconds.h"
#include "base/text.h"
#include "base/text_parts.h"

namespace regroup::cli {
namespace {

constexpr double kLongestSeconds = 1e8;  // Three years.

auto wrong(const std::string& flag, std::string_view value, const std::string& wanted) {
  return fail(ErrorKind::InvalidArgument,
              fmt::format("{} is {}; it takes {}", flag, printable(value), wanted));
}

std::optional<std::int64_t> count_of(std::string_view text) {
  const auto number = python_int(std::string(text));
  if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) return {};
  return *number;
}

struct Rate {
  std::int64_t count = 0;
  Duration time{};
};

// "3/1h"
std::optional<Rate> rate_of(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return {};
  const auto count = count_of(text.substr(0, slash));
  const auto time = parse_time(text.substr(slash + 1));
  if (!count || !time || *time == Duration{}) return {};
  return Rate{*count, *time};
}

std::optional<std::vector<std::int64_t>> codes_of(std::string_view text) {
  std::vector<std::int64_t> codes;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto code = python_int(std::string(text.substr(0, comma)));
    if (!code || *code < -64 || *code > 255 || *code == 0) return {};
    codes.push_back(*code);
    if (comma == std::string_view::npos) return codes;
    text.remove_prefix(comma + 1);
  }
  return {};
}

bool parse_policy(const std::string& text, RunRules& rules) {
  rules.per_node = text == "torchrun";
  return text == "run" || text == "torchrun";
}

bool parse_crash_loop(const std::string& text, RunRules& rules) {
  const auto rate = rate_of(text);
  if (!rate || rate->count == 0) return false;
  rules.crash_loop = rate->count;
  rules.crash_loop_time = rate->time;
  return true;
}

bool parse_codes(const std::string& text, RunRules& rules) {
  auto codes = codes_of(text);
  if (!codes || codes->size() > 256) return false;
  rules.no_restart_codes = std::move(*codes);
  return true;
}

bool parse_strikes(const std::string& text, RunRules& rules) {
  const auto count = count_of(text);
  if (count) rules.node_strikes = *count;
  return count.has_value();
}

bool parse_changes(const std::string& text, RunRules& rules) {
  rules.max_membership_changes = count_of(text);
  return rules.max_membership_changes.has_value();
}

bool parse_segment(const std::string& text, RunRules& rules) {
  rules.segment = count_of(text).value_or(0);
  return rules.segment > 0;
}

bool parse_rejoin(const std::string& text, RunRules& rules) {
  rules.rejoin_timeout = parse_time(text);
  return rules.rejoin_timeout && *rules.rejoin_timeout > Duration{};
}

bool parse_heartbeat(const std::string& text, RunRules& rules) {
  rules.heartbeat_limit = parse_time(text).value_or(Duration{});
  // So that the three tries in it each have a chance to get through.
  return rules.heartbeat_limit >= 100ms;
}

bool parse_grace(const std::string& text, RunRules& rules) {
  const auto grace = parse_time(text);
  if (grace) rules.reconnect_grace = *grace;
  return grace.has_value();
}

constexpr RuleFlag kRuleFlags[] = {
    {.name = "restart-policy",
     .value = "WHO",
     .help = "Who counts restarts: run (one count for all nodes), torchrun (each node its own)",
     .usual = "run",
     .parse = parse_policy,
     .wanted = "run or torchrun"},
    {.name = "crash-loop",
     .value = "N/TIME",
     .help = "Give up after N failures in a row within TIME of the start: 3/30s",
     .parse = parse_crash_loop,
     .wanted = "a number of failures, each within a time: 3/30s"},
    {.name = "no-restart-codes",
     .value = "CODE,...",
     .help = "Exit codes after which the run is over; -9 is SIGKILL",
     .parse = parse_codes,
     .wanted = "exit codes with commas between them, 1 to 255, or -1 to -64 for signals"},
    {.name = "node-strikes",
     .value = "N",
     .help = "A node that was the first to fail N times is not let in again",
     .parse = parse_strikes,
     .wanted = "a whole number; 0 is no limit"},
    {.name = "max-membership-changes",
     .value = "N",
     .help = "How often nodes may come, leave or be lost; without it any number",
     .parse = parse_changes,
     .wanted = "a whole number, 0 or more"},
    {.name = "rejoin-timeout",
     .value = "TIME",
     .help = "How long the survivors wait for a replacement. Default join_timeout",
     .parse = parse_rejoin,
     .wanted = "a time above zero: 90, 90s, 5m, 1.5h, 100ms"},
    {.name = "heartbeat-limit",
     .value = "TIME",
     .help = "A node that is silent for this long is lost",
     .usual = "5s",
     .parse = parse_heartbeat,
     .wanted = "a time of 100ms or more"},
    {.name = "reconnect-grace",
     .value = "TIME",
     .help = "How long a node whose connection breaks has to come back; its workers run on",
     .usual = "100ms",
     .parse = parse_grace,
     .wanted = "a time: 0, 100ms, 2s"},
    {.name = "segment",
     .value = "N",
     .help = "Only whole groups of N nodes with the same --topology-key are in a round",
     .parse = parse_segment,
     .wanted = "a number of nodes, 1 or more"},
};

}  // namespace

std::optional<Duration> parse_time(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}};
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || !std::isfinite(value) || value < 0) return {};
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  double scale = unit.empty() ? 1 : 0;
  for (const auto& [name, seconds] : kUnits)
    if (unit == name) scale = seconds;
  if (scale == 0 || value * scale > kLongestSeconds) return {};
  return from_seconds(value * scale);
}

std::span<const RuleFlag> rule_flags() { return kRuleFlags; }

RestartFlags::RestartFlags() {
  for (const RuleFlag& flag : kRuleFlags) rules.emplace(flag.name, flag.usual);
}

Result<RunRules> parse_run_rules(const RestartFlags& flags, const std::string& max_restarts) {
  RunRules rules;
  if (max_restarts.find('/') != std::string::npos) {
    const auto rate = rate_of(max_restarts);
    if (!rate)
      return wrong("--max-restarts", max_restarts,
                   "a whole number, 0 or more, or a number within a time: 3/1h");
    rules.max_restarts = rate->count;
    rules.restart_window = rate->time;
  } else {
    const auto count = count_of(max_restarts);
    if (!count) return wrong("--max-restarts", max_restarts, "a whole number, 0 or more");
    rules.max_restarts = *count;
  }
  for (const RuleFlag& flag : kRuleFlags) {
    const std::string& typed = flags.rules.at(flag.name);
    const bool is_given = !typed.empty() || *flag.usual != 0;
    if (is_given && !flag.parse(typed, rules))
      return wrong("--" + std::string(flag.name), typed, flag.wanted);
  }
  if (rules.per_node && rules.restart_window > Duration{})
    return fail(ErrorKind::InvalidArgument,
                "--max-restarts within a time is counted for the whole run; it does not go with "
                "--restart-policy torchrun");
  return rules;
}

}  // namespace regroup::cli
