#include "io/loop/loop.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "io/loop/clock.h"

namespace regroup::io {
namespace {

TEST(Loop, RunsWhatWasPostedInOrderAndStops) {
  const auto opened = Loop::open();
  Loop& loop = **opened;
  std::string order;
  loop.post([&] { order += 'a'; });
  loop.post([&] { order += 'b'; });
  loop.post([&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(order, "ab");
}

TEST(Loop, TakesTasksFromOtherThreadsWhileItSleeps) {
  const auto opened = Loop::open();
  Loop& loop = **opened;
  std::thread other([&] { loop.post([&] { loop.stop(); }); });
  loop.run();
  other.join();
}

TEST(Loop, LingersAndStillSleepsInTheEnd) {
  const auto opened = Loop::open({.linger = 200us});
  Loop& loop = **opened;
  Timer timer(loop);
  int ticks = 0;
  std::function<void()> tick = [&] {
    if (++ticks == 20)
      loop.stop();
    else
      timer.set(now() + 100us, tick);
  };
  timer.set(now(), tick);
  loop.run();
  EXPECT_EQ(ticks, 20);
}

TEST(Timer, RunsOnlyTheLatestTask) {
  const auto opened = Loop::open();
  Loop& loop = **opened;
  Timer timer(loop);
  std::string ran;
  timer.set(now(), [&] { ran += "old"; });
  timer.set(now(), [&] {
    ran += "new";
    loop.stop();
  });
  loop.run();
  EXPECT_EQ(ran, "new");
}

TEST(Timer, RunsNothingOnceCancelledOrGone) {
  const auto opened = Loop::open();
  Loop& loop = **opened;
  Timer cancelled(loop);
  cancelled.set(now(), [] { FAIL(); });
  cancelled.cancel();
  {
    Timer gone(loop);
    gone.set(now(), [] { FAIL(); });
  }
  Timer last(loop);
  last.set(now() + 1ms, [&] { loop.stop(); });
  loop.run();
}

TEST(Loop, TurnsSignalsIntoEventsThatNameTheirSender) {
  const auto opened = Loop::open();
  Loop& loop = **opened;
  std::vector<int> heard;
  auto first = loop.on_signal(SIGUSR1, [&](const SignalEvent& event) {
    heard.push_back(event.number);
    EXPECT_EQ(event.sender, ::getpid());
    ::kill(::getpid(), SIGUSR2);
  });
  auto second = loop.on_signal(SIGUSR2, [&](const SignalEvent& event) {
    heard.push_back(event.number);
    loop.stop();
  });
  ASSERT_TRUE(first && second);
  ::kill(::getpid(), SIGUSR1);
  loop.run();
  EXPECT_EQ(heard, (std::vector<int>{SIGUSR1, SIGUSR2}));
}

}  // namespace
}  // namespace regroup::io
