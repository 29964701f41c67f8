#include "runtime/store/store_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "io/loop/clock.h"
#include "regroup/store.h"
#include "wire/session/session.h"

namespace regroup::runtime {
namespace {

using testing::HasSubstr;

TEST(StoreChannel, AnOrdinaryStoreHasNoSessionAndTheChannelStaysGood) {
  auto server = StoreServer::start({});
  ASSERT_TRUE(server) << server.error().message;
  const Instant deadline = io::deadline_after(60s);
  auto channel = StoreChannel::open("127.0.0.1", (*server)->port(), deadline);
  ASSERT_TRUE(channel) << channel.error().message;
  const auto none = channel->into_session(deadline);
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_FALSE(*none);
  ASSERT_TRUE(channel->ask("set", "k", core::store::Set{"k", "v"}, deadline));
  const auto value = channel->ask("get", "k", core::store::Get{"k"}, deadline);
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(std::get<core::store::Value>(*value).bytes, "v");
}

TEST(StoreChannel, WhereTheSessionKeyIsTheSocketIsHandedOver) {
  auto server = StoreServer::start({});
  ASSERT_TRUE(server) << server.error().message;
  const Instant deadline = io::deadline_after(60s);
  auto channel = StoreChannel::open("127.0.0.1", (*server)->port(), deadline);
  ASSERT_TRUE(channel) << channel.error().message;
  // A store that says «ready»; what follows is the store's language still.
  ASSERT_TRUE(channel->ask("set", {}, core::store::Set{wire::kSessionKey, ""}, deadline));
  auto socket = channel->into_session(deadline);
  ASSERT_TRUE(socket) << socket.error().message;
  ASSERT_TRUE(*socket);
  ByteBuffer out;
  wire::append_request(out, core::store::Ping{7});
  ASSERT_TRUE((*socket)->send(out.view(), deadline));
  std::array<char, 16> room;
  EXPECT_TRUE((*socket)->receive(room, deadline));
  const auto later = channel->ask("get", "k", core::store::Get{"k"}, deadline);
  ASSERT_FALSE(later);
  EXPECT_THAT(later.error().message, HasSubstr("has become a session"));
}

}  // namespace
}  // namespace regroup::runtime
