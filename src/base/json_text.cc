#include "base/json_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace regroup {
namespace {

void append_unit(std::string& text, unsigned unit) {
  constexpr char kDigits[] = "0123456789abcdef";
  text += "\\u";
  for (const int shift : {12, 8, 4, 0}) text += kDigits[unit >> shift & 15u];
}

}  // namespace

void append_json_escaped(std::string& text, char32_t point) {
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

std::string json_escaped(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    append_json_escaped(escaped, point.value);
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
