// Text as bytes: UTF-8, and what stands in for bytes that are none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace regroup {

inline constexpr char32_t kReplacement = 0xfffd;

struct CodePoint {
  char32_t value = kReplacement;
  std::size_t bytes = 1;  // How many bytes it takes, or how many are replaced together.
};

// The first code point of a text that is not empty. Bytes that are not UTF-8 stand for U+FFFD, as
// in Python with errors="replace". Lone surrogates are not UTF-8 either.
CodePoint first_code_point(std::string_view text);

// Valid UTF-8 from any bytes: each stretch that is not UTF-8 becomes U+FFFD.
std::string valid_utf8(std::string_view bytes);

}  // namespace regroup
