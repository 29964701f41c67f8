#include "wire/bytes/half_pairs.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
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

}  // namespace

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

}  // namespace regroup::wire
