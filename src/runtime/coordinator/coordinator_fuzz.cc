// No messages, states and times, in any order, may crash the coordinator or keep it busy.
#include <cstdint>
#include <string_view>

#include "runtime/coordinator/any_bytes_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  regroup::runtime::AnyBytes({reinterpret_cast<const char*>(data), size}).play();
  return 0;
}
