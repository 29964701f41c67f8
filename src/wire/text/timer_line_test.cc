#include "wire/text/timer_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace regroup::wire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const TimerLine kAcquire{.pid = 8515, .scope = "step", .expiration = 1700000000.25, .signal = 9};
const TimerLine kRelease{.pid = 8515, .scope = "step", .expiration = -1, .signal = 0};
constexpr std::string_view kAcquireText =
    R"({"version": 1, "pid": 8515, "scope_id": "step", "expiration_time": 1700000000.25, "signal": 9})"
    "\n";
constexpr std::string_view kReleaseText =
    R"({"version": 1, "pid": 8515, "scope_id": "step", "expiration_time": -1, "signal": 0})"
    "\n";

TimerLines read(std::string_view bytes) {
  TimerLines found;
  TimerLineReader reader;
  reader.read(bytes, found);
  return found;
}

TEST(TimerLine, IsWrittenAsPyTorchWritesIt) {
  EXPECT_EQ(encode_timer_line(kAcquire), kAcquireText);
  EXPECT_EQ(encode_timer_line(kRelease), kReleaseText);
}

TEST(TimerLine, IsReadAsPyTorchWritesIt) {
  const auto found = read(std::string(kAcquireText).append(kReleaseText));
  EXPECT_THAT(found.lines, ElementsAre(kAcquire, kRelease));
  EXPECT_THAT(found.complaints, IsEmpty());
  EXPECT_TRUE(found.lines[1].is_release());
}

TEST(TimerLine, TheBytesMayBeCutAnywhere) {
  const std::string text = std::string(kAcquireText) + "rubbish\n" + std::string(kReleaseText);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    TimerLineReader reader;
    TimerLines found;
    reader.read(text.substr(0, cut), found);
    reader.read(text.substr(cut), found);
    EXPECT_THAT(found.lines, ElementsAre(kAcquire, kRelease)) << cut;
    EXPECT_EQ(found.complaints.size(), 1u);
  }
}

TEST(TimerLine, AnyTextIsAScope) {
  for (const std::string scope :
       {"", "a \"b\" \\ \n\t\x01\x7f", "größer/Ω/😀", "{\"version\": 1}", "Infinity"}) {
    TimerLine line = kAcquire;
    line.scope = scope;
    const std::string text = encode_timer_line(line);
    for (const char c : text.substr(0, text.size() - 1)) EXPECT_TRUE(c >= ' ' && c < '\x7f');
    EXPECT_THAT(read(text).lines, ElementsAre(line));
  }
}

TEST(TimerLine, AScopeOfAFileWithStrayBytesInItsNameIsReadable) {
  const auto found = read(
      R"({"version": 1, "pid": 7, "scope_id": "a\udcffb#3", "expiration_time": 5, "signal": 9})"
      "\n");
  EXPECT_THAT(found.lines, ElementsAre(TimerLine{.pid = 7,
                                                 .scope = "a\xef\xbf\xbd"
                                                          "b#3",
                                                 .expiration = 5,
                                                 .signal = 9}));
}

TEST(TimerLine, OtherFieldsAndNumbersOfAnyKindAreFine) {
  const auto found = read(
      R"( { "signal":-3, "more": {"a": [1, null]}, "expiration_time": 17, "scope_id": "s", "pid": 7 } )"
      "\r\n"
      R"({"pid": 7, "scope_id": "s", "expiration_time": -0.5, "signal": 9})"
      "\n");
  EXPECT_THAT(found.complaints, IsEmpty());
  EXPECT_THAT(found.lines,
              ElementsAre(TimerLine{.pid = 7, .scope = "s", .expiration = 17, .signal = -3},
                          TimerLine{.pid = 7, .scope = "s", .expiration = -0.5, .signal = 9}));
}

TEST(TimerLine, PythonsInfinityIsNever) {
  for (const char* never : {"Infinity", "NaN", "1e308", "1e400"}) {
    const auto found = read(std::string(R"({"version": 1, "pid": 7, "scope_id": "s", )") +
                            R"("expiration_time": )" + never + ", \"signal\": 9}\n");
    ASSERT_EQ(found.lines.size(), 1u) << never;
    EXPECT_TRUE(std::isinf(found.lines[0].expiration)) << never;
  }
  TimerLine line = kAcquire;
  line.expiration = std::numeric_limits<double>::infinity();
  EXPECT_THAT(read(encode_timer_line(line)).lines, ElementsAre(line));
}

TEST(TimerLine, ABrokenLineCostsOneComplaintAndNotItsNeighbours) {
  for (
      const char* broken : {
          "rubbish",
          "{",
          "17",
          "[1, 2]",
          "null",
          "\xff\xfe\x00",
          R"({"version": 1, "pid": 7, "scope_id": "s", "expiration_time": 5})",
          R"({"version": 1, "pid": 0, "scope_id": "s", "expiration_time": 5, "signal": 9})",
          R"({"version": 1, "pid": -1, "scope_id": "s", "expiration_time": 5, "signal": 9})",
          R"({"version": 1, "pid": 99999999999, "scope_id": "s", "expiration_time": 5, "signal": 9})",
          R"({"version": 1, "pid": "7", "scope_id": "s", "expiration_time": 5, "signal": 9})",
          R"({"version": 1, "pid": 7, "scope_id": null, "expiration_time": 5, "signal": 9})",
          R"({"version": 1, "pid": 7, "scope_id": "s", "expiration_time": "5", "signal": 9})",
          R"({"version": 1, "pid": 7, "scope_id": "s", "expiration_time": 5, "signal": 65})",
          R"({"version": 1, "pid": 7, "scope_id": "s", "expiration_time": 5, "signal": 9.5})",
      }) {
    const auto found = read(std::string(kAcquireText) + broken + "\n" + std::string(kReleaseText));
    EXPECT_THAT(found.lines, ElementsAre(kAcquire, kRelease)) << broken;
    EXPECT_EQ(found.complaints.size(), 1u) << broken;
  }
}

TEST(TimerLine, EmptyLinesAreNoLines) {
  const auto found = read("\n  \n" + std::string(kAcquireText) + "\r\n");
  EXPECT_THAT(found.lines, ElementsAre(kAcquire));
  EXPECT_THAT(found.complaints, IsEmpty());
}

TEST(TimerLine, LinesThatAreGluedTogetherAreTakenApart) {
  const std::string acquire(kAcquireText.substr(0, kAcquireText.size() - 1));
  const auto two = read(acquire + std::string(kReleaseText));
  EXPECT_THAT(two.lines, ElementsAre(kAcquire, kRelease));
  EXPECT_THAT(two.complaints, IsEmpty());
  for (std::size_t cut = 1; cut < acquire.size(); ++cut) {  // Its writer died in the middle of it.
    const auto found = read(acquire.substr(0, cut) + std::string(kReleaseText));
    EXPECT_THAT(found.lines, ElementsAre(kRelease)) << cut;
    EXPECT_EQ(found.complaints.size(), 1u) << cut;
  }
}

TEST(TimerLine, ALineWithoutEndIsThrownAwayUpToItsEnd) {
  TimerLineReader reader;
  TimerLines found;
  const std::string much(kLongestTimerLine, 'x');
  for (int i = 0; i < 10; ++i) reader.read(much, found);
  EXPECT_THAT(found.complaints, ElementsAre(HasSubstr("longer than 65536 bytes")));
  reader.read("\n" + std::string(kAcquireText), found);
  EXPECT_THAT(found.lines, ElementsAre(kAcquire));
  EXPECT_EQ(found.complaints.size(), 1u);
}

TEST(TimerLine, AHeartbeatIsAReleaseToPyTorch) {
  const TimerLine line{.pid = 7, .scope = "heartbeat", .expiration = -1, .heartbeat = true};
  const std::string text = encode_timer_line(line);
  EXPECT_EQ(
      text,
      R"({"version": 1, "pid": 7, "scope_id": "heartbeat", "expiration_time": -1, "signal": 0, "heartbeat": true})"
      "\n");
  EXPECT_THAT(read(text).lines, ElementsAre(line));
}

}  // namespace
}  // namespace regroup::wire
