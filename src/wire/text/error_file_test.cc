#include "wire/text/error_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace regroup::wire {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kOfRecord =
    R"({"message": {"message": "ValueError: boom", "extraInfo": {"py_callstack": )"
    R"("Traceback (most recent call last):\nValueError: boom\n", "timestamp": "1794726077"}}})";

TEST(ErrorFile, ReadsAndWritesWhatRecordWrites) {
  const ErrorFile file{.message = "ValueError: boom",
                       .call_stack = "Traceback (most recent call last):\nValueError: boom\n",
                       .timestamp = 1794726077,
                       .structured = true};
  EXPECT_EQ(decode_error_file(kOfRecord).value(), file);
  EXPECT_EQ(encode_error_file(file), kOfRecord);
}

TEST(ErrorFile, ReadsAMessageThatIsAText) {
  EXPECT_EQ(decode_error_file(R"({"message": "disk on fire", "timestamp": 12})").value(),
            (ErrorFile{.message = "disk on fire", .timestamp = 12}));
  EXPECT_EQ(decode_error_file(R"({"message": "<NONE>"})").value(),
            (ErrorFile{.message = "<NONE>"}));
}

TEST(ErrorFile, ReadsTheExitCodeThatALauncherBelowAdded) {
  const auto file = decode_error_file(R"({"message": {"message": "m", "errorCode": -11}})").value();
  EXPECT_EQ(file.error_code, -11);
  EXPECT_THAT(encode_error_file(file), EndsWith(R"(, "errorCode": -11}})"));
}

TEST(ErrorFile, IsPassedOnWithWhateverIsInItAndTheExitCode) {
  EXPECT_EQ(
      with_error_code(R"({"message": {"message": "\u00e4 ä\n", "more": [1, {}]}, "x": 2})", -9),
      R"({"message":{"message":"\u00e4 \u00e4\n","more":[1,{}],"errorCode":-9},"x":2})");
  EXPECT_EQ(with_error_code(R"({"message": {"message": "m", "errorCode": 3}})", 7),
            R"({"message":{"message":"m","errorCode":7}})");
  // A text has no place for it.
  EXPECT_EQ(with_error_code(R"({"message": "gone", "timestamp": 12})", 7),
            R"({"message":"gone","timestamp":12})");
  EXPECT_EQ(with_error_code("no JSON", 7), "no JSON");
}

TEST(ErrorFile, TakesATimestampInAnyFormAndNonsenseForNone) {
  const auto timestamp = [](const std::string& value) {
    return decode_error_file(R"({"message": {"message": "m", "extraInfo": {"timestamp": )" + value +
                             "}}}")
        .value()
        .timestamp;
  };
  for (const char* value : {"12", "12.0", "12.9", "1.2e1", "\"12\"", "\"12.5\""})
    EXPECT_EQ(timestamp(value), 12) << value;
  for (const char* value : {"null", "true", "\"\"", "\"soon\"", "\"12s\"", "1e300", "\"1e300\"",
                            "\"nan\"", "[12]", "99999999999999999999"})
    EXPECT_EQ(timestamp(value), std::nullopt) << value;
}

TEST(ErrorFile, TellsWhyAFileCannotBeUsed) {
  const std::pair<std::string, std::string> files[] = {
      {"", "no JSON"},
      {std::string(kOfRecord.substr(0, 60)), "no JSON"},
      {std::string(kOfRecord) + "x", "no JSON"},
      {"[1]", "no \"message\""},
      {R"({"error": "x"})", "no \"message\""},
      {R"({"message": null})", "no \"message\""},
      {R"({"message": {"extraInfo": {"timestamp": "1"}}})", "neither \"message\" nor"},
      {std::string(kErrorFileBytes + 1, ' '), "longer than 1048576 bytes"},
      {R"({"message": )" + std::string(100, '[') + std::string(100, ']') + "}", "no JSON"},
  };
  for (const auto& [text, why] : files) {
    const auto file = decode_error_file(text);
    ASSERT_FALSE(file) << text;
    EXPECT_EQ(file.error().kind, ErrorKind::Corrupt);
    EXPECT_THAT(file.error().message, HasSubstr(why));
  }
}

TEST(ErrorFile, FindsTheMessageInTheCallStackIfNothingElseTellsIt) {
  const auto file = decode_error_file(
      R"({"message": {"extraInfo": {"py_callstack": "Traceback\n  File\nKeyError: 'x'\n"}}})");
  EXPECT_EQ(file.value().message, "KeyError: 'x'");
}

TEST(ErrorFile, ReadsTextWithStrayBytes) {
  // As Python escapes what is no UTF-8 in a file name; a whole pair is left alone.
  EXPECT_EQ(decode_error_file(R"({"message": "a\udcffb\ud83d\ude80\ud83d \\udcff"})")->message,
            "a\xef\xbf\xbd"
            "b\xf0\x9f\x9a\x80\xef\xbf\xbd \\udcff");
  EXPECT_EQ(decode_error_file("{\"message\": \"a\xff\"}")->message, "a\xef\xbf\xbd");
}

TEST(ErrorFile, WritesValidAsciiWhateverTheTextHolds) {
  const std::string text = encode_error_file({.message = "\xff\xc3\xa4 \xf0\x9f\x9a\x80 \x01\"\\"});
  EXPECT_THAT(text, HasSubstr(R"("\ufffd\u00e4 \ud83d\ude80 \u0001\"\\")"));
  EXPECT_THAT(decode_error_file(text)->message, StartsWith("\xef\xbf\xbd\xc3\xa4"));
}

TEST(ErrorFile, WritesNoEmptyCallStack) {
  EXPECT_EQ(encode_error_file({.message = "m", .timestamp = 3}),
            R"({"message": {"message": "m", "extraInfo": {"timestamp": "3"}}})");
}

TEST(ErrorFile, KeepsTheEndOfAGiantCallStackAndTheBeginningOfAGiantMessage) {
  for (const char* piece : {"x", "\xc3\xa4", "\x01", "\xff", "\xf0\x9f\x9a\x80"}) {
    std::string giant;
    while (giant.size() < 2 * kErrorFileBytes) giant += piece;
    const auto file = decode_error_file(
        encode_error_file({.message = "first " + giant, .call_stack = giant + " last"}));
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_THAT(file->message, StartsWith("first "));
    EXPECT_THAT(file->message, EndsWith("..."));
    EXPECT_THAT(file->call_stack, StartsWith("...\n"));
    EXPECT_THAT(file->call_stack, EndsWith(" last"));
    EXPECT_GT(file->call_stack.size(), kCallStackBytes / 7);
  }
}

}  // namespace
}  // namespace regroup::wire
