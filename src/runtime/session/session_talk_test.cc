#include "runtime/session/session_talk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>

#include "wire/session/session.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Instant at(Duration time) { return Instant{} + time; }

SessionTalk talk(bool was_served = false) {
  return {std::nullopt, std::nullopt, {.heartbeat_limit = 3s, .was_served = was_served}, at(0s)};
}

const SessionProofs kProofs{.ours = {Bytes32{1}}, .theirs = {Bytes32{2}}};

SessionTalk with_secret(bool was_served = false) {
  return {kProofs, std::nullopt, {.heartbeat_limit = 3s, .was_served = was_served}, at(0s)};
}

SessionTalk::Heard hear(SessionTalk& talk, const std::vector<FromCoordinator>& said,
                        Instant now = at(1s)) {
  ByteBuffer in;
  for (const FromCoordinator& message : said) wire::append_frame(in, message);
  return talk.hear(in, now);
}

std::vector<FromAgent> said(const ByteBuffer& out) {
  std::vector<FromAgent> messages;
  ByteBuffer in;
  in.append(out.view());
  FrameReader<FromAgent> reader;
  for (;;) {
    auto frame = reader.next(in);
    auto* whole = std::get_if<wire::WholeFrame<FromAgent>>(&frame);
    if (whole == nullptr) return messages;
    messages.push_back(std::move(whole->message));
  }
}

TEST(SessionTalk, ProvesItselfBeforeItsIntroduction) {
  SessionTalk node = with_secret();
  ByteBuffer out;
  node.introduce({Hello{.run_id = "r"}, Join{}}, out);
  EXPECT_THAT(said(out), ElementsAre(FromAgent(kProofs.ours), FromAgent(Hello{.run_id = "r"}),
                                     FromAgent(Join{})));
}

TEST(SessionTalk, HandsOnWhatComesInOrderAndKeepsAnswersToPings) {
  SessionTalk node = talk();
  ByteBuffer out;
  EXPECT_EQ(node.ping(out), 1u);
  const auto heard = hear(node, {Progress{.text = "a"}, Pong{1}, Pong{9}, Over{}});
  EXPECT_THAT(heard.messages, ElementsAre(FromCoordinator(Progress{.text = "a"}), Over{}));
  EXPECT_FALSE(heard.end);
  EXPECT_EQ(node.answered(), 1u);  // Nobody has asked for 9.
}

TEST(SessionTalk, PingsThreeTimesInTheLimitAndThenACoordinatorIsSilent) {
  SessionTalk node = talk();
  ByteBuffer out;
  EXPECT_EQ(node.next_deadline(), at(1s));
  EXPECT_FALSE(node.on_time(at(1s), out));
  EXPECT_FALSE(node.on_time(at(2s), out));
  EXPECT_THAT(said(out), ElementsAre(FromAgent(Ping{1}), FromAgent(Ping{2})));
  const auto end = node.on_time(at(3s), out);
  ASSERT_TRUE(end);
  EXPECT_THAT(end->why, HasSubstr("silent"));
  EXPECT_FALSE(end->refused);
}

TEST(SessionTalk, TheLimitOfTheRunCountsFromTheWelcomeOn) {
  SessionTalk node = talk();
  hear(node, {Welcome{.rules = {.heartbeat_limit = 30s}}}, at(0s));
  EXPECT_EQ(node.next_deadline(), at(10s));
}

TEST(SessionTalk, ARefusalEndsItForGoodIfItLasts) {
  for (const bool lasting : {true, false}) {
    SessionTalk node = talk();
    const auto heard = hear(node, {Refused{.why = "no", .lasting = lasting}, Over{}});
    EXPECT_THAT(heard.messages,
                ElementsAre(FromCoordinator(Refused{.why = "no", .lasting = lasting})));
    ASSERT_TRUE(heard.end);
    EXPECT_EQ(heard.end->refused, lasting);
  }
}

TEST(SessionTalk, AnUnprovenServerIsALastingRefusalOnlyIfNobodyServedUsBefore) {
  SessionTalk first = with_secret();
  auto heard = hear(first, {Over{}, kProofs.theirs});
  EXPECT_THAT(heard.messages, ElementsAre(FromCoordinator(Refused{.why = kNotProven})));
  EXPECT_TRUE(heard.end->refused);

  SessionTalk later = with_secret(true);
  heard = hear(later, {Over{}, kProofs.theirs});
  EXPECT_THAT(heard.messages, IsEmpty());
  EXPECT_FALSE(heard.end->refused);

  SessionTalk refused_later = with_secret(true);
  heard = hear(refused_later, {Refused{.why = "no"}});
  EXPECT_THAT(heard.messages, IsEmpty());
  EXPECT_FALSE(heard.end->refused);
}

TEST(SessionTalk, AStrangerThatTalksIsStillSilent) {
  SessionTalk node = with_secret();
  ByteBuffer out;
  ByteBuffer half;
  half.append("\0\0");
  for (const Duration time : {1s, 2s}) {
    node.hear(half, at(time));
    EXPECT_FALSE(node.on_time(at(time), out));
  }
  EXPECT_TRUE(node.on_time(at(3s), out));
}

TEST(SessionTalk, NonsenseEndsIt) {
  SessionTalk node = talk();
  ByteBuffer in;
  in.append("HTTP/1.1 400 Bad Request\r\n\r\n");
  const auto heard = node.hear(in, at(0s));
  ASSERT_TRUE(heard.end);
  EXPECT_TRUE(heard.end->nonsense);
  EXPECT_FALSE(heard.end->refused);
}

}  // namespace
}  // namespace regroup::runtime
