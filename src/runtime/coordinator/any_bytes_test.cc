// The property that coordinator_fuzz.cc looks for with more patience: nothing that can be said to a
// coordinator, or swapped in, ends it.
#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "runtime/coordinator/any_bytes_testing.h"

namespace regroup::runtime {
namespace {

TEST(AnyBytes, DoNotEndTheCoordinatorNorKeepItBusy) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    std::string bytes(100 + random.below(1000), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.next());
    AnyBytes(bytes).play();
  }
}

}  // namespace
}  // namespace regroup::runtime
