// Text as bytes: UTF-8, and what stands in for bytes that are none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace regroup {

inline constexpr char32_t kReplacement = 0xfffd;

struct CodePoint {
  char32_t value = kReplacement;
  std::size_t bytes = 1;  // How many it takes, or how many are to be replaced together.
};

// The first of a text that is not empty. A stretch that is no UTF-8 stands for U+FFFD, as in Python
// with errors="replace". Lone surrogates are none either.
CodePoint first_code_point(std::string_view text);

// UTF-8 whatever it was: with U+FFFD for each stretch that is none.
std::string valid_utf8(std::string_view bytes);

}  // namespace regroup
