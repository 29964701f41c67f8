// Flags that take a time: 90, 90s, 10m, 1.5h, 100ms. Without a unit it is seconds.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own.
class Option;
}

namespace regroup::cli {

// What such a flag takes, for messages.
inline constexpr const char* kTakesTime = "a time: 90, 90s, 10m, 1.5h, 100ms";

// The same in seconds. A bare number may be written in any way that a number may.
std::optional<double> seconds_of(std::string_view text);

// The option, whose value is a number of seconds, takes a time from `least` to `most` seconds.
CLI::Option* takes_time(CLI::Option* option, double least, double most);

}  // namespace regroup::cli
