#include "wire/bytes/json_text.h"

#include <charconv>
#include <optional>

namespace regroup::wire {
namespace {

std::optional<std::uint32_t> hex4(std::string_view text, std::size_t at) {
  std::uint32_t value = 0;
  if (text.size() < at + 4) return {};
  const char* const end = text.data() + at + 4;
  const auto read = std::from_chars(text.data() + at, end, value, 16);
  if (read.ec != std::errc{} || read.ptr != end) return {};
  return value;
}

void append_unit(std::string& out, std::uint32_t unit) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kDigits[unit >> shift & 15];
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {};
  std::uint32_t value = first & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3fu);
  }
  const bool too_long = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  if (too_long || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return {};
  return {value, bytes};
}

std::string valid_text(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    if (point.value == kReplacement)
      valid += "\xef\xbf\xbd";
    else
      valid += text.substr(0, point.bytes);
    text.remove_prefix(point.bytes);
  }
  return valid;
}

std::string without_half_pairs(std::string_view text) {
  std::string whole(text);
  for (std::size_t at = whole.find('\\'); at != std::string::npos; at = whole.find('\\', at)) {
    const auto unit = whole.compare(at, 2, "\\u") == 0 ? hex4(whole, at + 2) : std::nullopt;
    if (!unit) {
      at += 2;
      continue;
    }
    if (*unit >= 0xd800 && *unit < 0xe000) {
      const auto next = whole.compare(at + 6, 2, "\\u") == 0 ? hex4(whole, at + 8) : std::nullopt;
      if (*unit < 0xdc00 && next && *next >= 0xdc00 && *next < 0xe000)
        at += 6;
      else
        whole.replace(at, 6, "\\ufffd");
    }
    at += 6;
  }
  return whole;
}

void append_escaped(std::string& out, std::uint32_t point) {
  switch (point) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  if (point >= 0x20 && point < 0x7f) {
    out += static_cast<char>(point);
  } else if (point < 0x10000) {
    append_unit(out, point);
  } else {
    append_unit(out, 0xd800 + ((point - 0x10000) >> 10));
    append_unit(out, 0xdc00 + ((point - 0x10000) & 0x3ff));
  }
}

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    append_escaped(out, point.value);
    text.remove_prefix(point.bytes);
  }
  return out;
}

}  // namespace regroup::wire
