#include "base/json_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace regroup {
namespace {

TEST(JsonText, WritesAnObjectInTheOrderOfAdding) {
  JsonObject object;
  object.add("text", "a").add("number", 3).add("big", std::int64_t{1} << 40).add("yes", true);
  object.raw("list", "[1, 2]").null("nothing");
  EXPECT_EQ(object.text(),
            R"({"text": "a", "number": 3, "big": 1099511627776, "yes": true, "list": [1, 2], )"
            R"("nothing": null})");
  EXPECT_EQ(JsonObject().text(), "{}");
}

TEST(JsonText, ATextIsNeverTakenForABoolean) {
  const std::string owned = "b";
  EXPECT_EQ(JsonObject().add("a", "b").add("b", owned).add("c", std::string_view("c")).text(),
            R"({"a": "b", "b": "b", "c": "c"})");
}

TEST(JsonText, NumbersWithAPointKeepIt) {
  EXPECT_EQ(JsonObject().add("a", 0.5).add("b", 2.0).add("c", 1e300).text(),
            R"({"a": 0.5, "b": 2.0, "c": 1e+300})");
  EXPECT_EQ(JsonObject()
                .add("a", std::numeric_limits<double>::infinity())
                .add("b", std::numeric_limits<double>::quiet_NaN())
                .text(),
            R"({"a": null, "b": null})");
  EXPECT_EQ(JsonObject().add("a", std::numeric_limits<std::uint64_t>::max()).text(),
            R"({"a": 18446744073709551615})");
}

TEST(JsonText, EscapesWhatCannotStandInAString) {
  EXPECT_EQ(json_escaped("a\"b\\c\n\r\t\b\f"), R"(a\"b\\c\n\r\t\b\f)");
  EXPECT_EQ(json_escaped(std::string_view("\0\x1b\x7f", 3)), R"(\u0000\u001b\u007f)");
  EXPECT_EQ(JsonObject().add("a\"", "").text(), R"({"a\"": ""})");
}

TEST(JsonText, WritesEverythingElseInAscii) {
  EXPECT_EQ(json_escaped("\xc3\xa9"), R"(\u00e9)");
  EXPECT_EQ(json_escaped("\xe2\x82\xac"), R"(\u20ac)");
  EXPECT_EQ(json_escaped("\xf0\x9f\x98\x80"), R"(\ud83d\ude00)");
}

TEST(JsonText, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(json_escaped("a\xff"
                         "b"),
            R"(a\ufffdb)");
}

}  // namespace
}  // namespace regroup
