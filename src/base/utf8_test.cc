#include "base/utf8.h"

#include <gtest/gtest.h>

namespace regroup {
namespace {

TEST(Utf8, ReplacesWhatIsNone) {
  EXPECT_EQ(valid_utf8("plain \xc3\xa9 \xf0\x9f\x98\x80"), "plain \xc3\xa9 \xf0\x9f\x98\x80");
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(valid_utf8(bad), bad);
  EXPECT_EQ(valid_utf8("\xc3"), bad);                                // Cut at the end,
  EXPECT_EQ(valid_utf8("\xe2\x82"), bad);                            // however much of it is there,
  EXPECT_EQ(valid_utf8("\xe2\x82x"), bad + "x");                     // or by the next.
  EXPECT_EQ(valid_utf8("\x80\x80"), bad + bad);                      // Nothing began.
  EXPECT_EQ(valid_utf8("\xc0\xaf"), bad + bad);                      // Longer than need be.
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), bad + bad + bad);            // A lone surrogate.
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), bad + bad + bad + bad);  // Beyond the last.
}

TEST(Utf8, KnowsThePointAndItsBytes) {
  EXPECT_EQ(first_code_point("a").value, U'a');
  const CodePoint euro = first_code_point("\xe2\x82\xac!");
  EXPECT_EQ(euro.value, U'\u20ac');
  EXPECT_EQ(euro.bytes, 3u);
}

}  // namespace
}  // namespace regroup
