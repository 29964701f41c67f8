#include "runtime/common/backoff.h"

#include <gtest/gtest.h>

namespace regroup::runtime {
namespace {

TEST(Backoff, PausesLongerEachTimeUpToItsLimit) {
  Backoff backoff(100ms, 1s);
  const Duration first = backoff.next();
  EXPECT_GE(first, 50ms);
  EXPECT_LT(first, 150ms);
  for (int i = 0; i < 10; ++i) backoff.next();
  for (int i = 0; i < 100; ++i) {
    const Duration late = backoff.next();
    EXPECT_GE(late, 500ms);
    EXPECT_LT(late, 1500ms);
  }
}

}  // namespace
}  // namespace regroup::runtime
