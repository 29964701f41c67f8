// Any output of a worker must be harmless to the search for its traceback.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "wire/text/traceback.h"

using namespace regroup;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view tail(reinterpret_cast<const char*>(data), size);
  const auto found = wire::last_traceback(tail);
  if (!found) return 0;
  CHECK(!found->last_line.empty() && found->last_line.find('\n') == std::string::npos);
  CHECK(!found->text.empty());
  // Nothing is made up except the blank lines around a link of a chain.
  CHECK(found->text.size() <= 3 * tail.size());
  // What comes before it changes nothing.
  CHECK(wire::last_traceback("epoch 1\nepoch 2\n" + std::string(tail)).has_value() ||
        tail.starts_with(' ') || tail.starts_with('\t') || tail.starts_with('\x1b') ||
        tail.starts_with('['));
  return 0;
}
