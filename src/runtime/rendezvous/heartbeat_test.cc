#include "runtime/rendezvous/heartbeat.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <future>
#include <string>
#include <utility>

namespace regroup::runtime {
namespace {

TEST(Heartbeat, BeatsOnAThreadWithAName) {
  std::promise<std::string> named;
  Heartbeat heart;
  ASSERT_TRUE(heart.start(1ms, [&, told = false]() mutable {
    std::array<char, 16> name{};
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    if (!std::exchange(told, true)) named.set_value(name.data());
  }));
  EXPECT_EQ(named.get_future().get(), "heartbeat");
  heart.stop();
}

TEST(HeartbeatLog, TellsTheFirstThatFailsAndHowManyTheyWere) {
  HeartbeatLog log;
  const Result<void> good;
  const Result<void> bad = fail(ErrorKind::Connection, "no store");
  EXPECT_EQ(log.on_beat(good), "");
  EXPECT_EQ(log.on_beat(bad), "a heartbeat did not get through: no store");
  EXPECT_EQ(log.on_beat(bad), "");
  EXPECT_EQ(log.on_beat(bad), "");
  EXPECT_EQ(log.on_beat(good), "heartbeats get through again, after 3 failed ones");
  EXPECT_EQ(log.on_beat(good), "");
  EXPECT_EQ(log.on_beat(bad), "a heartbeat did not get through: no store");
  EXPECT_EQ(log.on_beat(good), "heartbeats get through again, after 1 failed one");
}

TEST(HeartbeatLog, AStopEndsARow) {
  HeartbeatLog log;
  const Result<void> bad = fail(ErrorKind::Connection, "no store");
  const Result<void> stopped = fail(ErrorKind::Cancelled, "stopped");
  EXPECT_EQ(log.on_stop(), "");
  EXPECT_NE(log.on_beat(bad), "");
  EXPECT_EQ(log.on_stop(), "");  // It was told.
  EXPECT_NE(log.on_beat(bad), "");
  EXPECT_EQ(log.on_beat(bad), "");
  EXPECT_EQ(log.on_beat(stopped), "");
  EXPECT_EQ(log.on_stop(), "the last 2 heartbeats did not get through");
  EXPECT_EQ(log.on_stop(), "");
}

}  // namespace
}  // namespace regroup::runtime
