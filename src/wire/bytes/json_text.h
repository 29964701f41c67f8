// Text in JSON as Python writes it: ASCII, with \u escapes; and what of that others refuse to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace regroup::wire {

inline constexpr std::uint32_t kReplacement = 0xfffd;

struct CodePoint {
  std::uint32_t value = kReplacement;
  std::size_t bytes = 1;
};

// The first of a text that is not empty. A byte that begins no code point stands for U+FFFD.
CodePoint first_code_point(std::string_view text);

// With U+FFFD for what is no UTF-8.
std::string valid_text(std::string_view text);

// Python writes text with stray bytes in it (a file name, say) as \udc80 to \udcff, half of a pair
// that Boost refuses. The rest of such a message is worth reading.
std::string without_half_pairs(std::string_view text);

// As Python's json.dump writes it, without the quotes around it.
void append_escaped(std::string& out, std::uint32_t point);
std::string escaped(std::string_view text);

}  // namespace regroup::wire
