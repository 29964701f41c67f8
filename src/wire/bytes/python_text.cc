#include "wire/bytes/python_text.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace regroup::wire {

bool is_python_text(std::string_view bytes) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  while (at != end) {
    // Nearly all texts are ASCII, so eight bytes at once.
    if (end - at >= 8) {
      std::uint64_t eight = 0;
      std::memcpy(&eight, at, sizeof eight);
      if ((eight & 0x8080808080808080) == 0) {
        at += 8;
        continue;
      }
    }
    const auto first = static_cast<unsigned char>(*at++);
    if (first < 0x80) continue;
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || end - at < more) return false;
    std::uint32_t point = first & (0x3fu >> more);
    for (int i = 0; i < more; ++i) {
      const auto next = static_cast<unsigned char>(*at++);
      if ((next & 0xc0) != 0x80) return false;
      point = point << 6 | (next & 0x3fu);
    }
    // Too long for its value, or beyond the last code point.
    if ((more == 2 && point < 0x800) || (more == 3 && (point < 0x10000 || point > 0x10ffff)))
      return false;
  }
  return true;
}

}  // namespace regroup::wire
