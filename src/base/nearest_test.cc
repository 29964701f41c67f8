#include "base/nearest.h"

#include <gtest/gtest.h>

namespace regroup {
namespace {

TEST(Nearest, FindsWhatWasMeant) {
  const std::vector<std::string> known{"--host", "--port", "--port-file", "--stats"};
  EXPECT_EQ(nearest("--prot", known), "--port");
  EXPECT_EQ(nearest("--portfile", known), "--port-file");
  EXPECT_EQ(nearest("--stat", known), "--stats");
}

TEST(Nearest, KeepsSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest("--verbose", {"--host", "--port"}), std::nullopt);
  EXPECT_EQ(nearest("x", {}), std::nullopt);
}

}  // namespace
}  // namespace regroup
