#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "regroup/logs.h"

namespace regroup {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Filters = std::vector<std::string>;

TEST(ParseStreams, OneForAll) {
  EXPECT_EQ(parse_streams("0")->of(5), Streams::None);
  EXPECT_EQ(parse_streams("1")->of(5), Streams::Out);
  EXPECT_EQ(parse_streams("2")->of(5), Streams::Err);
  EXPECT_EQ(parse_streams("3")->of(5), Streams::Both);
}

TEST(ParseStreams, RankByRank) {
  const auto streams = parse_streams("0:1,12:3,0:2");
  ASSERT_TRUE(streams);
  EXPECT_EQ(streams->of(0), Streams::Err);  // The last word counts.
  EXPECT_EQ(streams->of(12), Streams::Both);
  EXPECT_EQ(streams->of(1), Streams::None);
}

TEST(ParseStreams, SaysWhichPieceIsWrongAndWhatIsRight) {
  const auto wrong = parse_streams("0:1,10:4");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, ErrorKind::InvalidArgument);
  EXPECT_THAT(wrong.error().message, HasSubstr("'10:4' in '0:1,10:4'"));
  EXPECT_THAT(wrong.error().message, HasSubstr("'0:1,12:3'"));
  for (const char* text : {"", "4", "-1", "03", "0:", ":1", "0:1,", ",0:1", "0:1:1", "a:1", "-1:1",
                           "+1:1", "0: 1", "99999999999:1", "10000000:1"})
    EXPECT_FALSE(parse_streams(text)) << text;
}

TEST(ParseRanks, NumbersAndRanges) {
  EXPECT_THAT(*parse_ranks(""), ElementsAre());
  EXPECT_THAT(*parse_ranks("3"), ElementsAre(3));
  EXPECT_THAT(*parse_ranks("0,8-11"), ElementsAre(0, 8, 9, 10, 11));
  EXPECT_THAT(*parse_ranks(" 12, 5 - 5 ,12"), ElementsAre(5, 12));
}

TEST(ParseRanks, SaysWhichPieceIsWrongAndWhatIsRight) {
  const auto wrong = parse_ranks("0,8-x");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, ErrorKind::InvalidArgument);
  EXPECT_THAT(wrong.error().message, HasSubstr("'8-x' in '0,8-x'"));
  EXPECT_THAT(wrong.error().message, HasSubstr("'0,8-15'"));
  for (const char* text : {"a", "-1", "3-1", "1,", ",1", "1,,2", "1-", "1-2-3", "0-99999999", "+1"})
    EXPECT_FALSE(parse_ranks(text)) << text;
}

TEST(ParseFilters, CommasSeparateUnlessDoubled) {
  EXPECT_EQ(parse_filters("apple,orange"), (Filters{"apple", "orange"}));
  EXPECT_EQ(parse_filters("a,,b"), Filters{"a,b"});
  EXPECT_EQ(parse_filters(",,,"), (Filters{",", ""}));
  EXPECT_EQ(parse_filters(",,,,"), Filters{",,"});
  EXPECT_EQ(parse_filters(",a"), (Filters{"", "a"}));
  EXPECT_EQ(parse_filters(","), (Filters{"", ""}));
}

TEST(ParseFilters, AnEmptyTextIsOneFilterThatMatchesEverything) {
  EXPECT_EQ(parse_filters(""), Filters{""});
}

}  // namespace
}  // namespace regroup
