// Timers of threads: a queue, and the server behind it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>

#include "regroup/timer.h"
#include "runtime/common/log.h"
#include "runtime/watchdog/timer_testing.h"

namespace regroup {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kNever = std::numeric_limits<double>::infinity();

TEST(LocalRequestQueue, GivesWhatItHasUpToTheSizeAskedFor) {
  LocalRequestQueue queue;
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_THAT(queue.get(1, 0s), IsEmpty());
  for (int i = 0; i < 3; ++i) queue.put({.worker_id = i, .scope_id = "s", .expiration_time = 1});
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.get(2, 0s).size(), 2u);
  EXPECT_EQ(queue.size(), 1u);
  const auto rest = queue.get(5, 1ms);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].worker_id, 2);
}

TEST(LocalRequestQueue, WaitsForWhatIsAskedFor) {
  LocalRequestQueue queue;
  std::thread writer([&] {
    for (int i = 0; i < 2; ++i) queue.put({.worker_id = i, .scope_id = "s", .expiration_time = 1});
  });
  EXPECT_EQ(queue.get(2, 60s).size(), 2u);
  writer.join();
}

TEST(LocalTimerClient, SpeaksForItsProcess) {
  auto queue = std::make_shared<LocalRequestQueue>();
  LocalTimerClient client(queue);
  ASSERT_TRUE(client.acquire("a", 17));
  ASSERT_TRUE(client.release("a"));
  EXPECT_THAT(
      queue->get(2, 0s),
      ElementsAre(
          TimerRequest{
              .worker_id = ::getpid(), .scope_id = "a", .expiration_time = 17, .signal = SIGKILL},
          TimerRequest{.worker_id = ::getpid(), .scope_id = "a", .expiration_time = -1}));
}

class TimerServerTest : public testing::Test {
 protected:
  bool reap(const ExpiredWorker& worker) {
    told.tell(worker);
    return good;
  }

  std::shared_ptr<LocalRequestQueue> queue = std::make_shared<LocalRequestQueue>();
  Told<ExpiredWorker> told;
  std::atomic<bool> good = true;
  // So long that nothing in these tests waits for it to pass.
  static constexpr Duration kLong = 600s;
};

TEST_F(TimerServerTest, ReapsAWorkerAtItsDeadlineThoughNothingElseHappens) {
  TimerServer server(queue, kLong, [this](const ExpiredWorker& worker) { return reap(worker); });
  server.start();
  queue->put({.worker_id = 7, .scope_id = "a", .expiration_time = in(0.05)});
  const auto reaped = told.wait_for(1);
  ASSERT_EQ(reaped.size(), 1u);
  EXPECT_EQ(reaped[0].worker_id, 7);
  EXPECT_THAT(reaped[0].scopes, ElementsAre("a"));
}

TEST_F(TimerServerTest, AReleasedTimerReapsNobodyAndARepeatReplaces) {
  TimerServer server(queue, kLong, [this](const ExpiredWorker& worker) { return reap(worker); });
  queue->put({.worker_id = 7, .scope_id = "a", .expiration_time = in(-1)});
  queue->put({.worker_id = 7, .scope_id = "a", .expiration_time = -1});
  queue->put({.worker_id = 8, .scope_id = "a", .expiration_time = in(-1)});
  queue->put({.worker_id = 8, .scope_id = "a", .expiration_time = kNever});
  queue->put({.worker_id = 9, .scope_id = "a", .expiration_time = in(-1)});
  server.start();
  const auto reaped = told.wait_for(1);
  server.stop();
  ASSERT_EQ(reaped.size(), 1u);
  EXPECT_EQ(reaped[0].worker_id, 9);
}

TEST_F(TimerServerTest, AReapedWorkerHasNoTimersLeft) {
  TimerServer server(queue, 1ms, [this](const ExpiredWorker& worker) { return reap(worker); });
  queue->put({.worker_id = 7, .scope_id = "late", .expiration_time = in(0.1)});
  queue->put({.worker_id = 7, .scope_id = "a", .expiration_time = in(-1)});
  queue->put({.worker_id = 8, .scope_id = "a", .expiration_time = in(0.2)});
  server.start();
  const auto reaped = told.wait_for(2);
  server.stop();
  ASSERT_EQ(reaped.size(), 2u);
  EXPECT_EQ(reaped[0].worker_id, 7);
  ASSERT_FALSE(reaped[0].scopes.empty());  // On a slow machine the other has expired too.
  EXPECT_EQ(reaped[0].scopes[0], "a");
  EXPECT_EQ(reaped[1].worker_id, 8);
}

TEST_F(TimerServerTest, WhatCouldNotBeReapedIsTriedAgain) {
  good = false;
  TimerServer server(queue, 1ms, [this](const ExpiredWorker& worker) { return reap(worker); });
  queue->put({.worker_id = 7, .scope_id = "a", .expiration_time = in(-1)});
  server.start();
  EXPECT_GE(told.wait_for(3).size(), 3u);
}

TEST_F(TimerServerTest, AReaperThatThrowsCountsAsOneThatReaped) {
  TimerServer server(queue, 1ms, [this](const ExpiredWorker& worker) -> bool {
    told.tell(worker);
    throw std::runtime_error("no");
  });
  queue->put({.worker_id = 7, .scope_id = "a", .expiration_time = in(-1)});
  server.start();
  told.wait_for(1);
  queue->put({.worker_id = 8, .scope_id = "a", .expiration_time = in(-1)});
  const auto reaped = told.wait_for(2);
  server.stop();
  ASSERT_EQ(reaped.size(), 2u);
  EXPECT_EQ(reaped[1].worker_id, 8);
}

// A queue of a user's own, which fails at first.
class BadQueue final : public RequestQueue {
 public:
  std::size_t size() const override { return good.size(); }
  std::vector<TimerRequest> get(std::size_t size, Duration timeout) override {
    if (failures-- > 0) throw std::runtime_error("the broker is away");
    return good.get(size, timeout);
  }
  LocalRequestQueue good;
  std::atomic<int> failures = 1;
};

TEST_F(TimerServerTest, AQueueThatThrowsIsAskedAgain) {
  auto bad = std::make_shared<BadQueue>();
  Told<std::string> lines;
  const runtime::LogSink sink([&](const std::string& line) { lines.tell(line); });
  TimerServer server(bad, 1ms, [this](const ExpiredWorker& worker) { return reap(worker); });
  bad->good.put({.worker_id = 7, .scope_id = "a", .expiration_time = in(-1)});
  server.start();
  EXPECT_EQ(told.wait_for(1).at(0).worker_id, 7);
  server.stop();
  const auto told_lines = lines.wait_for(4);
  EXPECT_THAT(told_lines, testing::Contains(testing::HasSubstr("timer server starts")));
  EXPECT_THAT(told_lines, testing::Contains(testing::HasSubstr(
                              "queue has thrown: the broker is away; it is asked again")));
  EXPECT_THAT(told_lines, testing::Contains(testing::HasSubstr("worker 7: the time of scope a")));
  EXPECT_THAT(told_lines, testing::Contains(testing::HasSubstr("timer server has stopped")));
}

TEST_F(TimerServerTest, SendsTheSignalOfTheRequest) {
  Child ends([] {});
  Child stays([] {});
  TimerServer server(queue, 1ms);
  queue->put({.worker_id = stays.pid(), .scope_id = "none", .expiration_time = in(-1)});
  queue->put(
      {.worker_id = ends.pid(), .scope_id = "a", .expiration_time = in(-1), .signal = SIGTERM});
  server.start();
  EXPECT_EQ(ends.wait(), SIGTERM);
  server.stop();
  EXPECT_EQ(::kill(stays.pid(), SIGINT), 0);
  EXPECT_EQ(stays.wait(), SIGINT) << "its timer had no signal";
}

TEST_F(TimerServerTest, TellsAReaperTheSignal) {
  TimerServer server(queue, kLong, [this](const ExpiredWorker& worker) { return reap(worker); });
  queue->put({.worker_id = 7, .scope_id = "a", .expiration_time = in(-2)});
  queue->put({.worker_id = 7, .scope_id = "b", .expiration_time = in(-1), .signal = SIGINT});
  server.start();
  const auto reaped = told.wait_for(1);
  server.stop();
  EXPECT_THAT(reaped.at(0).scopes, ElementsAre("a", "b"));
  EXPECT_EQ(reaped.at(0).signal, SIGINT);
}

TEST_F(TimerServerTest, StartsAndStopsAsOftenAsYouLike) {
  TimerServer server(queue, kLong, [this](const ExpiredWorker& worker) { return reap(worker); });
  server.stop();
  for (int i = 0; i < 3; ++i) {
    server.start();
    server.start();
    server.stop();
  }
}

}  // namespace
}  // namespace regroup
