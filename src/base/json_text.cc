#include "base/json_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>

namespace regroup {
namespace {

struct CodePoint {
  char32_t value = 0xfffd;
  std::size_t bytes = 1;  // How many it takes, or how many are to be replaced together.
};

bool within(std::string_view text, std::size_t at, unsigned low, unsigned high) {
  if (at >= text.size()) return false;
  const auto byte = static_cast<unsigned char>(text[at]);
  return byte >= low && byte <= high;
}

CodePoint first_of(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {.value = lead, .bytes = 1};
  const std::size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  if (lead < 0xc2 || lead > 0xf4) return {};
  // What would be longer than need be, a surrogate, or beyond the last code point shows in the
  // second byte.
  const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  char32_t value = lead & (0x3fu >> more);
  for (std::size_t i = 1; i <= more; ++i) {
    if (!within(text, i, i == 1 ? low : 0x80, i == 1 ? high : 0xbf)) return {.bytes = i};
    value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  }
  return {.value = value, .bytes = more + 1};
}

void append_unit(std::string& text, unsigned unit) {
  constexpr char kDigits[] = "0123456789abcdef";
  text += "\\u";
  for (const int shift : {12, 8, 4, 0}) text += kDigits[unit >> shift & 15u];
}

void append_escaped(std::string& text, char32_t point) {
  switch (point) {
    case '"':
      text += "\\\"";
      return;
    case '\\':
      text += "\\\\";
      return;
    case '\n':
      text += "\\n";
      return;
    case '\r':
      text += "\\r";
      return;
    case '\t':
      text += "\\t";
      return;
    case '\b':
      text += "\\b";
      return;
    case '\f':
      text += "\\f";
      return;
    default:
      break;
  }
  if (point >= 0x20 && point < 0x7f) {
    text += static_cast<char>(point);
  } else if (point < 0x10000) {
    append_unit(text, static_cast<unsigned>(point));
  } else {
    const auto rest = static_cast<unsigned>(point) - 0x10000u;
    append_unit(text, 0xd800u + (rest >> 10));
    append_unit(text, 0xdc00u + (rest & 0x3ffu));
  }
}

}  // namespace

std::string valid_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const CodePoint point = first_of(bytes);
    if (point.value == 0xfffd)
      text += "\xef\xbf\xbd";
    else
      text += bytes.substr(0, point.bytes);
    bytes.remove_prefix(point.bytes);
  }
  return text;
}

std::string json_escaped(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_of(text);
    append_escaped(escaped, point.value);
    text.remove_prefix(point.bytes);
  }
  return escaped;
}

JsonObject& JsonObject::add(std::string_view name, std::string_view value) {
  return raw(name, "\"" + json_escaped(value) + "\"");
}

JsonObject& JsonObject::add(std::string_view name, double value) {
  if (!std::isfinite(value)) return null(name);
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return raw(name, text);
}

JsonObject& JsonObject::raw(std::string_view name, std::string_view json) {
  if (!members_.empty()) members_ += ", ";
  members_ += '"';
  members_ += json_escaped(name);
  members_ += "\": ";
  members_ += json;
  return *this;
}

}  // namespace regroup
