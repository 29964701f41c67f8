#include "base/text.h"

#include <cstdint>

namespace regroup {
namespace {

std::string two_digits(std::int64_t number) {
  return (number < 10 ? "0" : "") + std::to_string(number);
}

}  // namespace

std::string printable(std::string_view bytes) {
  constexpr std::size_t kMost = 120;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "'";
  for (const char c : bytes.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\'' && c != '\\') {
      text += c;
    } else {
      text += "\\x";
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    }
  }
  text += '\'';
  if (bytes.size() > kMost) text += "… (" + std::to_string(bytes.size()) + " bytes)";
  return text;
}

std::string in_words(Duration duration) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(duration).count();
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600) return std::to_string(seconds / 60) + "m" + two_digits(seconds % 60) + "s";
  return std::to_string(seconds / 3600) + "h" + two_digits(seconds / 60 % 60) + "m";
}

}  // namespace regroup
