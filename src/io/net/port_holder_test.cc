#include "io/net/port_holder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "io/net/listener.h"

namespace regroup::io {
namespace {

using testing::HasSubstr;

TEST(PortHolder, IsNamedInTheMessageOfATakenPort) {
  const auto loop = Loop::open();
  ASSERT_TRUE(loop);
  const auto first = Listener::open(**loop, "127.0.0.1", 0);
  ASSERT_TRUE(first);
  const std::uint16_t port = (*first)->port();
  EXPECT_THAT(port_holder(port), HasSubstr("(pid " + std::to_string(::getpid()) + ")"));
  const auto second = Listener::open(**loop, "127.0.0.1", port);
  ASSERT_FALSE(second);
  EXPECT_THAT(name_port_holder(second.error().message, port),
              HasSubstr("the port is taken by " + port_holder(port)));
  EXPECT_EQ(name_port_holder("something else", port), "something else");
}

}  // namespace
}  // namespace regroup::io
