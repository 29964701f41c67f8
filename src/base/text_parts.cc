#include "base/text_parts.h"

#include <algorithm>
#include <cstddef>
#include <string>

namespace regroup {

std::string_view trimmed(std::string_view text, std::string_view space) {
  const std::size_t first = text.find_first_not_of(space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(space) - first + 1);
}

std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return part;
}

bool is_all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

std::optional<std::int64_t> python_int(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto has_digit = [&](std::size_t at) { return at < text.size() && is_digit(text[at]); };
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool between_digits = text[i] == '_' && i > 0 && has_digit(i - 1) && has_digit(i + 1);
    if (!between_digits) digits += text[i];
  }
  return to_number<std::int64_t>(digits);
}

}  // namespace regroup
