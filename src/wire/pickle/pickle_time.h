// The ten bytes in which Python pickles a datetime: year (two bytes, the higher first), month, day,
// hour, minute, second, microseconds (three bytes, the higher first).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace regroup::wire {

// Microseconds since 1970; empty if there is no such moment (31 February), or not ten bytes.
std::optional<std::int64_t> parse_datetime(std::string_view bytes);

// A moment outside of Python's years, 1 to 9999, becomes the nearest that is inside.
std::array<char, 10> write_datetime(std::int64_t micros);

}  // namespace regroup::wire
