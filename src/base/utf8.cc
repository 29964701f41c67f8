#include "base/utf8.h"

namespace regroup {
namespace {

bool within(std::string_view text, std::size_t at, unsigned low, unsigned high) {
  if (at >= text.size()) return false;
  const auto byte = static_cast<unsigned char>(text[at]);
  return byte >= low && byte <= high;
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {.value = lead, .bytes = 1};
  const std::size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  if (lead < 0xc2 || lead > 0xf4) return {};
  // The second byte shows whether the encoding is longer than needed, a surrogate, or beyond the
  // last code point.
  const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  char32_t value = lead & (0x3fu >> more);
  for (std::size_t i = 1; i <= more; ++i) {
    if (!within(text, i, i == 1 ? low : 0x80, i == 1 ? high : 0xbf)) return {.bytes = i};
    value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  }
  return {.value = value, .bytes = more + 1};
}

std::string valid_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const CodePoint point = first_code_point(bytes);
    if (point.value == kReplacement)
      text += "\xef\xbf\xbd";
    else
      text += bytes.substr(0, point.bytes);
    bytes.remove_prefix(point.bytes);
  }
  return text;
}

}  // namespace regroup
