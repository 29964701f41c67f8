// Frames that are cut, and those of older and newer peers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wire/session/session.h"
#include "wire/session/session_frames_testing.h"

namespace regroup::wire {
namespace {

using namespace session_testing;
using testing::HasSubstr;

TEST(Session, WaitsForTheRestOfACutFrame) {
  for_each_message([](const auto& message) {
    const std::string bytes = frame(message);
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      SCOPED_TRACE(cut);
      const auto parsed = parse(message, bytes.substr(0, cut));
      const auto* more = std::get_if<NeedMore>(&parsed);
      ASSERT_NE(more, nullptr);
      EXPECT_EQ(more->at_least, cut < 4 ? 4 : bytes.size());
    }
  });
}

// Where the frame would end if an older peer had written it.
template <class Message>
std::size_t end_in_version_2(const Message& message) {
  const bool has_rules = message.index() == 0;  // A hello, or a welcome.
  return has_rules ? frame(message).size() - 2 * sizeof(std::int64_t) : 0;
}
std::size_t end_in_version_1(const FromAgent& message) {
  const auto* hello = std::get_if<coordinator::Hello>(&message);
  if (hello == nullptr) return 0;
  return end_in_version_2(message) - sizeof hello->rules.segment - sizeof(std::uint32_t) -
         hello->claim.group.size();
}
std::size_t end_in_version_1(const FromCoordinator& message) {
  const auto* welcome = std::get_if<coordinator::Welcome>(&message);
  return welcome == nullptr ? 0 : end_in_version_2(message) - sizeof welcome->rules.segment;
}

TEST(Session, AnOlderPeerSaysNothingOfWhatItDoesNotKnow) {
  coordinator::Hello hello = full_hello();
  const RunRules none;
  hello.rules.keep_alive_interval = 20s;
  hello.rules.keep_alive_max_attempt = 7;
  std::string bytes = from_agent(hello).substr(0, end_in_version_2(FromAgent(hello)));
  hello.rules.keep_alive_interval = none.keep_alive_interval;
  hello.rules.keep_alive_max_attempt = none.keep_alive_max_attempt;
  expect_whole(parse_frame_from_agent(extended(bytes, "")), FromAgent(hello), bytes.size());

  bytes.resize(end_in_version_1(FromAgent(hello)));
  hello.claim.group.clear();
  hello.rules.segment = 0;
  expect_whole(parse_frame_from_agent(extended(bytes, "")), FromAgent(hello), bytes.size());

  coordinator::Welcome welcome{.member = true, .rules = {.min_nodes = 3, .segment = 3}};
  bytes = from_coordinator(welcome);
  bytes.resize(end_in_version_1(FromCoordinator(welcome)));
  welcome.rules.segment = 0;
  expect_whole(parse_frame_from_coordinator(extended(bytes, "")), FromCoordinator(welcome),
               bytes.size());
}

TEST(Session, AFrameThatEndsInsideAFieldIsMalformed) {
  for_each_message([](const auto& message) {
    const std::string bytes = frame(message);
    for (std::size_t end = kHead; end < bytes.size(); ++end) {
      SCOPED_TRACE(end);
      if (end == end_in_version_1(message) || end == end_in_version_2(message)) continue;
      const auto parsed = parse(message, extended(bytes.substr(0, end), ""));
      const auto* wrong = std::get_if<Malformed>(&parsed);
      ASSERT_NE(wrong, nullptr);
      EXPECT_THAT(wrong->reason, HasSubstr("frame: ends inside the "));
    }
  });
  EXPECT_EQ(why_not_from_agent(hand_made(4, raw(std::uint32_t{1}))),
            "a done frame: ends inside the round");
  EXPECT_EQ(why_not_from_agent(hand_made(7, raw(std::uint32_t{2}) + "j")),
            "a look frame: ends inside the run id");
}

TEST(Session, IgnoresWhatANewerPeerHasAdded) {
  for_each_message([](const auto& message) {
    const std::string bytes = extended(frame(message), "more");
    expect_whole(parse(message, bytes), message, bytes.size());
  });
}

TEST(Session, AcceptsANewerVersionAndRefusesNone) {
  const FromAgent message = full_hello();
  std::string bytes = frame(message);
  bytes.replace(kHead, 4, raw(std::uint32_t{3}));
  expect_whole(parse_frame_from_agent(bytes), message, bytes.size());
  bytes.replace(kHead, 4, raw(std::uint32_t{0}));
  EXPECT_EQ(why_not_from_agent(bytes), "a hello frame: version 0, which does not exist");
}

TEST(Session, SkipsKindsThatItDoesNotKnow) {
  for (const int kind : {0, 13, 64, 65, 77, 255}) {
    SCOPED_TRACE(kind);
    const auto parsed =
        parse_frame_from_agent(hand_made(static_cast<std::uint8_t>(kind), "news") + "x");
    const auto* skipped = std::get_if<SkippedFrame>(&parsed);
    ASSERT_NE(skipped, nullptr);
    EXPECT_EQ(skipped->size, kHead + 4);
  }
  for (const int kind : {0, 1, 12, 64, 78, 255}) {
    SCOPED_TRACE(kind);
    const auto parsed =
        parse_frame_from_coordinator(hand_made(static_cast<std::uint8_t>(kind), ""));
    const auto* skipped = std::get_if<SkippedFrame>(&parsed);
    ASSERT_NE(skipped, nullptr);
    EXPECT_EQ(skipped->size, kHead);
  }
}

}  // namespace
}  // namespace regroup::wire
