// Counters are kept as decimal text, and read as C's strtoll reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace regroup::core::store {

// Leading blanks and one sign are skipped, reading stops at the first non-digit. Empty if there is
// no digit, or the number does not fit.
std::optional<std::int64_t> parse_number(std::string_view text);

// Wraps around, as the original does: the largest number and 1 give the smallest.
constexpr std::int64_t add_wrapping(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace regroup::core::store
