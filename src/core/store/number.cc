#include "core/store/number.h"

#include <charconv>

namespace regroup::core::store {

std::optional<std::int64_t> parse_number(std::string_view text) {
  const auto start = text.find_first_not_of(" \t\n\v\f\r");
  if (start == std::string_view::npos) return std::nullopt;
  text.remove_prefix(start);
  // from_chars does not accept a plus sign, and would take "+-1" for -1 if we only cut the plus
  // off.
  if (text.front() == '+') {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

}  // namespace regroup::core::store
