#include "runtime/session/frame_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "core/coordinator/messages.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;
using testing::HasSubstr;
using Whole = wire::WholeFrame<FromCoordinator>;

constexpr Bytes32 kKey = {7};

void say(ByteBuffer& out, const FromCoordinator& message, FrameSealer* sealer = nullptr) {
  const std::size_t before = out.size();
  wire::append_frame(out, message);
  if (sealer != nullptr) sealer->seal(out, before);
}

TEST(FrameReader, TakesOneFrameAfterTheOtherOffTheInput) {
  ByteBuffer in;
  say(in, Pong{1});
  say(in, Pong{2});
  FrameReader<FromCoordinator> reader;
  EXPECT_EQ(std::get<Whole>(reader.next(in)).message, FromCoordinator{Pong{1}});
  EXPECT_EQ(std::get<Whole>(reader.next(in)).message, FromCoordinator{Pong{2}});
  EXPECT_TRUE(std::holds_alternative<wire::NeedMore>(reader.next(in)));
  EXPECT_TRUE(in.empty());
}

TEST(FrameReader, ReadsWhatAnAgentSaysToo) {
  ByteBuffer in;
  wire::append_frame(in, FromAgent{Look{"a run"}});
  FrameReader<FromAgent> reader;
  EXPECT_EQ(std::get<wire::WholeFrame<FromAgent>>(reader.next(in)).message,
            FromAgent{Look{"a run"}});
}

TEST(FrameReader, WaitsForTheSealWhereverTheBytesAreCut) {
  FrameSealer theirs(kKey);
  ByteBuffer all;
  say(all, Refused{.why = "no"}, &theirs);
  FrameSealer ours(kKey);
  FrameReader<FromCoordinator> reader;
  ByteBuffer in;
  for (std::size_t sent = 0; sent + 1 < all.size(); ++sent) {
    in.append(all.view().substr(sent, 1));
    const auto frame = reader.next(in, {.sealer = &ours});
    ASSERT_TRUE(std::holds_alternative<wire::NeedMore>(frame)) << sent;
    EXPECT_GT(std::get<wire::NeedMore>(frame).at_least, in.size());
  }
  in.append(all.view().substr(all.size() - 1));
  EXPECT_TRUE(std::holds_alternative<Whole>(reader.next(in, {.sealer = &ours})));
  EXPECT_TRUE(in.empty());
}

TEST(FrameReader, ExpectsSealsFromTheFrameBehindTheProof) {
  FrameSealer theirs(kKey);
  ByteBuffer in;
  say(in, CoordinatorProof{});
  say(in, Pong{1}, &theirs);
  say(in, Pong{2}, &theirs);
  FrameSealer ours(kKey);
  FrameReader<FromCoordinator> reader;
  const auto proof = reader.next(in, {.from_stranger = true});
  EXPECT_EQ(std::get<Whole>(proof).message, FromCoordinator{CoordinatorProof{}});
  EXPECT_EQ(std::get<Whole>(reader.next(in, {.sealer = &ours})).message, FromCoordinator{Pong{1}});
  EXPECT_EQ(std::get<Whole>(reader.next(in, {.sealer = &ours})).message, FromCoordinator{Pong{2}});
}

TEST(FrameReader, RefusesASealThatDoesNotFit) {
  FrameSealer theirs(Bytes32{8});
  ByteBuffer in;
  say(in, Pong{1}, &theirs);
  FrameSealer ours(kKey);
  FrameReader<FromCoordinator> reader;
  const auto frame = reader.next(in, {.sealer = &ours});
  EXPECT_THAT(std::get<wire::Malformed>(frame).reason, HasSubstr("the seal of the coordinator"));
}

TEST(FrameReader, TakesOffAFrameThatOnlyANewerPeerKnowsWithItsSeal) {
  FrameSealer theirs(kKey);
  ByteBuffer in;
  in.append_u32(1);
  in.append_u8(250);
  theirs.seal(in, 0);
  say(in, Pong{1}, &theirs);
  FrameSealer ours(kKey);
  FrameReader<FromCoordinator> reader;
  EXPECT_TRUE(std::holds_alternative<wire::SkippedFrame>(reader.next(in, {.sealer = &ours})));
  EXPECT_TRUE(std::holds_alternative<Whole>(reader.next(in, {.sealer = &ours})));
}

TEST(FrameReader, TakesALongReportButNotFromAStranger) {
  const std::string json(wire::kLargestFrame, ' ');
  ByteBuffer all;
  say(all, Report{json});
  constexpr std::size_t kHead = 5;  // Length and kind.
  ByteBuffer beginning;
  beginning.append(all.view().substr(0, kHead));

  FrameReader<FromCoordinator> of_stranger;
  EXPECT_TRUE(std::holds_alternative<wire::Malformed>(
      of_stranger.next(beginning, {.from_stranger = true})));
  EXPECT_TRUE(
      std::holds_alternative<wire::Malformed>(of_stranger.next(all, {.from_stranger = true})));

  FrameReader<FromCoordinator> reader;
  EXPECT_TRUE(std::holds_alternative<wire::NeedMore>(reader.next(beginning)));
  EXPECT_EQ(std::get<Whole>(reader.next(all)).message, FromCoordinator{Report{json}});
}

TEST(FrameReader, RefusesAFrameWithoutAKind) {
  ByteBuffer in;
  in.append_u32(0);
  FrameReader<FromCoordinator> reader;
  EXPECT_TRUE(std::holds_alternative<wire::Malformed>(reader.next(in)));
}

}  // namespace
}  // namespace regroup::runtime
