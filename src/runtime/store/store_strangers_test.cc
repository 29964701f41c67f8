// Connections that ask for nothing.
#include <gtest/gtest.h>

#include "runtime/store/coordinator_host_testing.h"

namespace regroup::runtime {
namespace {

using Strangers = CoordinatorHostTest;

TEST_F(Strangers, AreClosedAfterAWhile) {
  start({.greeting = 100ms});
  const auto client = store();
  Agent greeted(host_->port());  // As PyTorch 2.4 does, which asks for nothing at first.
  ByteBuffer greeting;
  wire::append_greeting(greeting);
  greeted.add_bytes(greeting.view()).send();
  Agent silent(host_->port());
  Agent half(host_->port());
  half.add_bytes(std::string_view("\0", 1)).send();
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(half.is_closed());
  EXPECT_TRUE(client->set("key", "value"));  // It has asked for something before.
  EXPECT_EQ(there([this] { return host_->counters().silent; }), 2u);
  EXPECT_EQ(there([this] { return host_->counters().clients; }), 2u);
}

TEST_F(Strangers, MakeRoomForOthersInTheOrderInWhichTheyCame) {
  start({.clients = 2});
  Agent first(host_->port());
  Agent second(host_->port());
  const auto one = store();
  EXPECT_TRUE(first.is_closed());
  EXPECT_EQ(there([this] { return host_->counters().silent; }), 1u);
  const auto another = store();
  EXPECT_TRUE(second.is_closed());
  // Now both have asked for something, and stay.
  Agent third(host_->port());
  EXPECT_TRUE(third.is_closed());
  EXPECT_TRUE(one->set("key", "value"));
  EXPECT_EQ(another->get("key"), "value");
  EXPECT_EQ(there([this] { return host_->counters().turned_away; }), 1u);
}

}  // namespace
}  // namespace regroup::runtime
