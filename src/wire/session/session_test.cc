// Messages as bytes, and back.
#include "wire/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wire/session/session_frames_testing.h"

namespace regroup::wire {
namespace {

using namespace session_testing;
using testing::HasSubstr;

TEST(Session, EveryMessageComesBackAsItWas) {
  // One of each: a kind that is added is added here, too.
  EXPECT_EQ(full_from_agent().size(), std::variant_size_v<FromAgent>);
  EXPECT_EQ(full_from_coordinator().size(), std::variant_size_v<FromCoordinator>);
  for_each_message([](const auto& message) {
    const std::string bytes = frame(message);
    expect_whole(parse(message, bytes), message, bytes.size());
  });
}

TEST(Session, TakesOneFrameOfManyThatAreThere) {
  for_each_message([](const auto& message) {
    const std::string bytes = frame(message);
    expect_whole(parse(message, bytes + bytes), message, bytes.size());
  });
}

TEST(Session, HasTheBytesOfTheProtocol) {
  using namespace std::string_literals;
  EXPECT_EQ(from_agent(coordinator::Ping{.number = 0x0807060504030201}),
            "\x09\0\0\0\x06\x01\x02\x03\x04\x05\x06\x07\x08"s);
  EXPECT_EQ(
      from_agent(coordinator::Join{.number = 3, .bootstrap = {.address = "h", .port = 29500}}),
      "\x10\0\0\0\x02\x03\0\0\0\0\0\0\0\x01\0\0\0h\x3c\x73"s);
  EXPECT_EQ(from_agent(coordinator::Leave{.why = "end", .close = true}),
            "\x09\0\0\0\x05\x03\0\0\0end\x01"s);
  EXPECT_EQ(from_agent(coordinator::Prove{counted_from('A')}),
            "\x21\0\0\0\x09"
            "ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"s);
  EXPECT_EQ(from_coordinator(coordinator::Over{}), "\x01\0\0\0\x45"s);
  EXPECT_EQ(from_coordinator(coordinator::Progress{.text = "a", .brief = "", .last_call = 2ns}),
            "\x14\0\0\0\x42\x01\0\0\0a\0\0\0\0\x01\x02\0\0\0\0\0\0\0\0"s);
  // The version stands first, and is no field of the message.
  EXPECT_THAT(from_agent(full_hello()), HasSubstr("\x01\x03\0\0\0\x05\0\0\0job-7"s));
}

// The sizes of docs/protocol.md: without texts, and without what is optional.
TEST(Session, HasTheSizesOfTheProtocol) {
  std::vector<std::size_t> sizes;
  for (const auto& message : default_from_agent()) sizes.push_back(frame(message).size());
  EXPECT_THAT(sizes, testing::ElementsAre(175, 19, 37, 13, 10, 13, 9, 13, 37, 37, 14, 17));
  sizes.clear();
  for (const auto& message : default_from_coordinator()) sizes.push_back(frame(message).size());
  EXPECT_THAT(sizes, testing::ElementsAre(116, 15, 76, 51, 5, 10, 13, 9, 17, 37, 37, 14, 18));
}

TEST(Session, ASealedFrameIsAsLongForTenThousandNodesAsForTwo) {
  const auto size = [](std::int64_t nodes) {
    return from_coordinator(coordinator::Sealed{.round = 3,
                                                .rank = nodes - 1,
                                                .world_size = nodes,
                                                .ranks = {.base_global_rank = 8 * (nodes - 1),
                                                          .global_world_size = 8 * nodes,
                                                          .base_role_rank = 8 * (nodes - 1),
                                                          .role_world_size = 8 * nodes},
                                                .bootstrap = {.address = "10.0.0.1", .port = 1}})
        .size();
  };
  EXPECT_EQ(size(2), size(10'000));
}

}  // namespace
}  // namespace regroup::wire
