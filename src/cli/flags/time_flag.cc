#include "cli/flags/time_flag.h"

#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <chrono>
#include <cmath>

#include "base/text_parts.h"
#include "cli/flags/restart_flags.h"

namespace regroup::cli {

std::optional<double> seconds_of(std::string_view text) {
  if (const auto number = to_number<double>(text); number && std::isfinite(*number)) return number;
  const auto time = parse_time(text);
  if (!time) return {};
  return std::chrono::duration<double>(*time).count();
}

CLI::Option* takes_time(CLI::Option* option, double least, double most) {
  const auto in_seconds = [least, most](std::string& text) -> std::string {
    const auto seconds = seconds_of(text);
    if (!seconds || !(*seconds >= least) || !(*seconds <= most))
      return fmt::format("'{}' is no time from {} s to {} s: 90, 90s, 10m, 1.5h, 100ms", text,
                         least, most);
    text = fmt::format("{}", *seconds);
    return "";
  };
  return option->type_name("TIME")->transform(CLI::Validator(in_seconds, ""));
}

}  // namespace regroup::cli
