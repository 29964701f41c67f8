#include "cli/flags/node_range.h"

#include <gtest/gtest.h>

namespace regroup::cli {
namespace {

TEST(NodeRange, OneNumberIsBothEnds) {
  EXPECT_EQ(parse_node_range("4"), (NodeRange{.min = 4, .max = 4}));
}

TEST(NodeRange, TwoNumbersAreTheLeastAndTheMost) {
  EXPECT_EQ(parse_node_range("2:8"), (NodeRange{.min = 2, .max = 8}));
}

TEST(NodeRange, NumbersAreSpelledAsInPython) {
  EXPECT_EQ(parse_node_range(" +2:1_0 "), (NodeRange{.min = 2, .max = 10}));
}

TEST(NodeRange, JudgesTheSpellingOnly) {
  EXPECT_EQ(parse_node_range("0:-3"), (NodeRange{.min = 0, .max = -3}));
}

TEST(NodeRange, AnythingElseIsRefusedWithHowToWriteIt) {
  for (const char* text : {"", ":", "2:", ":8", "two", "2:8:9", "2-8", "1.5", "0x10", "1__0", "_1",
                           "99999999999999999999"}) {
    const auto range = parse_node_range(text);
    ASSERT_FALSE(range) << text;
    EXPECT_EQ(range.error().kind, ErrorKind::InvalidArgument);
    EXPECT_NE(range.error().message.find("2:8"), std::string::npos);
  }
}

}  // namespace
}  // namespace regroup::cli
