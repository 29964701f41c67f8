// For states that cannot be. A failed CHECK prints where and what, and aborts, in release too.
#pragma once

#include <string_view>

namespace regroup {

[[noreturn]] void check_failed(std::string_view file, int line, std::string_view condition);

}  // namespace regroup

#define CHECK(condition) \
  ((condition) ? (void)0 : ::regroup::check_failed(__FILE__, __LINE__, #condition))
