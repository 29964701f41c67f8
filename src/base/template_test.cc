#include "base/template.h"

#include <gtest/gtest.h>

namespace regroup {
namespace {

std::string with_values(std::string_view text) {
  return substitute(text, {{"a", "X"}, {"b", "Y"}, {"local_rank", "3"}, {"Big", "B"}, {"d", "$a"}});
}

TEST(Template, PutsValuesForNames) {
  EXPECT_EQ(with_values("--rank=${local_rank}"), "--rank=3");
  EXPECT_EQ(with_values("$a$b ${a}${b}c"), "XY XYc");
  EXPECT_EQ(with_values("$Big"), "B");
  EXPECT_EQ(with_values(""), "");
  EXPECT_EQ(with_values("plain"), "plain");
}

TEST(Template, TakesTheLongestName) {
  EXPECT_EQ(with_values("$ab"), "$ab");
  EXPECT_EQ(with_values("$a_"), "$a_");
  EXPECT_EQ(with_values("$a1"), "$a1");
  EXPECT_EQ(with_values("$a-1"), "X-1");
  EXPECT_EQ(with_values("$a\xc3\xa9"), "X\xc3\xa9");
}

TEST(Template, HalvesDoubleDollars) {
  EXPECT_EQ(with_values("$$"), "$");
  EXPECT_EQ(with_values("$$a"), "$a");
  EXPECT_EQ(with_values("$$$a"), "$X");
  EXPECT_EQ(with_values("$${a}"), "${a}");
  EXPECT_EQ(with_values("$$$"), "$$");
}

TEST(Template, LeavesWhatItDoesNotKnow) {
  for (const char* text : {"$", "$1", "$ a", "${", "${a", "${}", "${a }", "${1}", "$A", "$unknown",
                           "${unknown}", "$\xc3\xa9", "${\xc3\xa9}", "a$", "$-"})
    EXPECT_EQ(with_values(text), text);
  EXPECT_EQ(with_values("${a$b}"), "${aY}");
  EXPECT_EQ(with_values("${$a}"), "${X}");
}

TEST(Template, DoesNotLookIntoValues) { EXPECT_EQ(with_values("$d"), "$a"); }

}  // namespace
}  // namespace regroup
