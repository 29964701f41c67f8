#include "base/text_parts.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace regroup {
namespace {

TEST(TextParts, TrimsWhatSurroundsAText) {
  EXPECT_EQ(trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(" \ta\n ", " "), "\ta\n");
}

TEST(TextParts, TakesOnePartAfterTheOther) {
  std::string_view text = "a,,b";
  EXPECT_EQ(take_until(text, ','), "a");
  EXPECT_EQ(take_until(text, ','), "");
  EXPECT_EQ(take_until(text, ','), "b");
  EXPECT_TRUE(text.empty());
  EXPECT_EQ(take_until(text, ','), "");
}

TEST(TextParts, KnowsDigitsFromOtherText) {
  EXPECT_TRUE(is_all_digits("0129"));
  EXPECT_FALSE(is_all_digits(""));
  EXPECT_FALSE(is_all_digits("-1"));
  EXPECT_FALSE(is_all_digits("1 "));
}

TEST(TextParts, TakesATextForANumberOnlyIfAllOfItIsOne) {
  EXPECT_EQ(to_number<int>("-12"), -12);
  EXPECT_EQ(to_number<std::uint64_t>("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(to_number<std::uint8_t>("256"), std::nullopt);
  EXPECT_EQ(to_number<std::uint64_t>("-1"), std::nullopt);
  EXPECT_EQ(to_number<int>(" 1"), std::nullopt);
  EXPECT_EQ(to_number<int>("1x"), std::nullopt);
  EXPECT_EQ(to_number<int>(""), std::nullopt);
  EXPECT_EQ(to_number<double>("0.5"), 0.5);
}

TEST(TextParts, ReadsAWholeNumberAsPythonDoes) {
  const std::vector<std::pair<const char*, std::optional<std::int64_t>>> table{
      {"4", 4},
      {" 4\t", 4},
      {"+4", 4},
      {"-4", -4},
      {"1_000", 1000},
      {"007", 7},
      {"", {}},
      {" ", {}},
      {"4.0", {}},
      {"_4", {}},
      {"4_", {}},
      {"1__0", {}},
      {"+-4", {}},
      {"four", {}},
      {"0x10", {}},
      {"4 4", {}},
      {"99999999999999999999", {}}};
  for (const auto& [text, number] : table) EXPECT_EQ(python_int(text), number) << text;
}

}  // namespace
}  // namespace regroup
