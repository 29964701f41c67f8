#include "wire/bytes/base64.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace regroup::wire {
namespace {

using testing::HasSubstr;

std::string complaint(std::string_view text) {
  const auto decoded = decode_base64(text);
  if (decoded) return "accepted";
  EXPECT_EQ(decoded.error().kind, ErrorKind::Protocol);
  return decoded.error().message;
}

TEST(Base64, KnowsTheVectorsOfRfc4648) {
  const std::pair<std::string, std::string> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"},
                                                         {"\xfb\xff\xbf", "+/+/"},
                                                         {"canimadam", "Y2FuaW1hZGFt"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(encode_base64(bytes), text);
    EXPECT_EQ(decode_base64(text), bytes);
  }
}

TEST(Base64, ReadsWhatItWritesWhateverTheBytes) {
  SeededRandom random(1);
  for (std::size_t size = 0; size < 400; ++size) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random.next());
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
  }
}

TEST(Base64, NamesWhatIsWrong) {
  EXPECT_THAT(complaint("Zm9"), HasSubstr("a length of 3"));
  EXPECT_THAT(complaint("Zm9v\n"), HasSubstr("a length of 5"));
  EXPECT_THAT(complaint("Zm9vZm\n="), HasSubstr("'\\x0a' at 6"));
  EXPECT_THAT(complaint("Z-9vZm9v"), HasSubstr("'-' at 1"));
  EXPECT_THAT(complaint("\xffm9v"), HasSubstr("'\\xff' at 0"));
  EXPECT_THAT(complaint("Zg==Zg=="), HasSubstr("'=' at 2"));
  EXPECT_THAT(complaint("Z==="), HasSubstr("'=' at 1"));
  EXPECT_THAT(complaint("===="), HasSubstr("'=' at 0"));
  EXPECT_THAT(complaint("Zm=v"), HasSubstr("'=' at 2"));
}

TEST(Base64, RefusesBitsBehindTheEndSoThatOneTextMeansOneValue) {
  EXPECT_THAT(complaint("Zh=="), HasSubstr("belong to no byte"));
  EXPECT_THAT(complaint("Zm9="), HasSubstr("belong to no byte"));
}

}  // namespace
}  // namespace regroup::wire
