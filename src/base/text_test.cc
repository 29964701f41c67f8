#include "base/text.h"

#include <gtest/gtest.h>

namespace regroup {
namespace {

TEST(Printable, LeavesOrdinaryTextAlone) { EXPECT_EQ(printable("run/1 a"), "'run/1 a'"); }

TEST(Printable, LetsNothingThroughThatATerminalOrALogWouldActOn) {
  EXPECT_EQ(printable("a\n\x1b[31m'"), "'a\\x0a\\x1b[31m\\x27'");
}

TEST(Printable, CutsWhatIsTooLong) {
  EXPECT_EQ(printable(std::string(8192, 'k')), "'" + std::string(120, 'k') + "'… (8192 bytes)");
}

TEST(InWords, AsPeopleSayIt) {
  EXPECT_EQ(in_words(0s), "0 s");
  EXPECT_EQ(in_words(100ms), "1 s");
  EXPECT_EQ(in_words(59s), "59 s");
  EXPECT_EQ(in_words(605s), "10m05s");
  EXPECT_EQ(in_words(7500s), "2h05m");
}

}  // namespace
}  // namespace regroup
