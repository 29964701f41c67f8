// Small steps for reading text: strip what surrounds a word, find where it ends, tell whether it is
// a number. None of them depends on the locale.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace regroup {

inline constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

// Without the blanks around it.
std::string_view trimmed(std::string_view text, std::string_view space = kWhiteSpace);

// Takes the text up to the separator off the front, and the separator; all of it if there is none.
std::string_view take_until(std::string_view& text, char separator);

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_all_digits(std::string_view text);  // At least one digit.

// The number in a text that is nothing else, if it fits. Signed numbers may have a minus.
template <class Number>
std::optional<Number> to_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

// As Python's int() reads it, and so torchrun its numbers: " 4", "+4", "1_000".
std::optional<std::int64_t> python_int(std::string_view text);

}  // namespace regroup
