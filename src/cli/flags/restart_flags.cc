#include "cli/flags/restart_flags.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/seconds.h"
#include "base/text.h"
#include "cli/flags/run_words.h"

namespace regroup::cli {
namespace {

constexpr double kLongestSeconds = 1e8;  // Three years.

auto wrong(const char* flag, std::string_view value, const std::string& wanted) {
  return fail(ErrorKind::InvalidArgument,
              std::string(flag) + " is " + printable(value) + "; it takes " + wanted);
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
  if (flags.policy != "run" && flags.policy != "torchrun")
    return wrong("--restart-policy", flags.policy, "run or torchrun");
  rules.per_node = flags.policy == "torchrun";
  if (rules.per_node && rules.restart_window > Duration{})
    return fail(ErrorKind::InvalidArgument,
                "--max-restarts within a time is counted for the whole run; it does not go with "
                "--restart-policy torchrun");
  if (!flags.crash_loop.empty()) {
    const auto rate = rate_of(flags.crash_loop);
    if (!rate || rate->count == 0)
      return wrong("--crash-loop", flags.crash_loop, "so many failures, so soon: 3/30s");
    rules.crash_loop = rate->count;
    rules.crash_loop_time = rate->time;
  }
  if (!flags.no_restart_codes.empty()) {
    auto codes = codes_of(flags.no_restart_codes);
    if (!codes || codes->size() > 256)
      return wrong("--no-restart-codes", flags.no_restart_codes,
                   "exit codes with commas between them, 1 to 255, or -1 to -64 for signals");
    rules.no_restart_codes = std::move(*codes);
  }
  if (!flags.node_strikes.empty()) {
    const auto count = count_of(flags.node_strikes);
    if (!count) return wrong("--node-strikes", flags.node_strikes, "a whole number; 0 is no limit");
    rules.node_strikes = *count;
  }
  if (!flags.max_changes.empty()) {
    const auto count = count_of(flags.max_changes);
    if (!count)
      return wrong("--max-membership-changes", flags.max_changes, "a whole number, 0 or more");
    rules.max_membership_changes = *count;
  }
  if (!flags.segment.empty()) {
    const auto count = count_of(flags.segment);
    if (!count || *count == 0)
      return wrong("--segment", flags.segment, "a number of nodes, 1 or more");
    rules.segment = *count;
  }
  const std::string wanted = "a time above zero: 90, 90s, 5m, 1.5h, 100ms";
  if (!flags.rejoin_timeout.empty()) {
    rules.rejoin_timeout = parse_time(flags.rejoin_timeout);
    if (!rules.rejoin_timeout || *rules.rejoin_timeout == Duration{})
      return wrong("--rejoin-timeout", flags.rejoin_timeout, wanted);
  }
  const auto limit = parse_time(flags.heartbeat_limit);
  // Three tries in it, each with a chance to get through.
  if (!limit || *limit < 100ms)
    return wrong("--heartbeat-limit", flags.heartbeat_limit, "a time of 100ms or more");
  rules.heartbeat_limit = *limit;
  const auto grace = parse_time(flags.reconnect_grace);
  if (!grace) return wrong("--reconnect-grace", flags.reconnect_grace, "a time: 0, 100ms, 2s");
  rules.reconnect_grace = *grace;
  return rules;
}

}  // namespace regroup::cli
