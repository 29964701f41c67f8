#include "io/loop/loop.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "io/loop/clock.h"
#include "io/loop/ready_set.h"

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

TEST(Timer, RunsThoseThatAreDueInTheOrderOfTheirInstants) {
  const auto opened = Loop::open();
  Loop& loop = **opened;
  const Instant start = now();
  std::string ran;
  Timer last(loop);
  Timer second(loop);
  Timer first(loop);
  last.set(start + 3us, [&] { loop.stop(); });
  second.set(start + 2us, [&] { ran += 'b'; });
  first.set(start + 1us, [&] { ran += 'a'; });
  loop.run();
  EXPECT_EQ(ran, "ab");
}

TEST(Timer, IsNeverEarlyAndItsInstantIsNotRounded) {
  const auto opened = Loop::open();
  Loop& loop = **opened;
  Timer timer(loop);
  // A busy machine makes some of them late, but not all: the best of them counts.
  Duration least_late = Duration::max();
  int left = 100;
  Instant at{};
  std::function<void()> tick = [&] {
    const Duration late = now() - at;
    EXPECT_GE(late, Duration{});
    least_late = std::min(least_late, late);
    if (--left == 0) return loop.stop();
    at = now() + 300us;
    timer.set(at, tick);
  };
  at = now() + 300us;
  timer.set(at, tick);
  loop.run();
  EXPECT_LT(least_late, 500us);
}

TEST(Timer, MayBeSetMovedAndDestroyedByItsOwnTask) {
  const auto opened = Loop::open();
  Loop& loop = **opened;
  auto timer = std::make_unique<Timer>(loop);
  Timer end(loop);
  int ran = 0;
  timer->set(now(), [&] {
    ++ran;
    timer->set(now() + 1h, [] { FAIL(); });
    timer->set(now(), [&] {
      ++ran;
      timer.reset();
      end.set(now(), [&] { loop.stop(); });
    });
  });
  loop.run();
  EXPECT_EQ(ran, 2);
}

TEST(Timer, GoesWithTheTaskThatOwnsIt) {
  const auto opened = Loop::open();
  struct Owner {
    explicit Owner(Loop& loop) : timer(loop) {}
    Timer timer;
  };
  auto owner = std::make_shared<Owner>(**opened);
  Timer& timer = owner->timer;
  timer.set(now() + 1h, [owner = std::move(owner)] { FAIL(); });
  timer.cancel();  // The last that knew of it was its task.
}

TEST(Timer, ThatSetsItselfToThePastHoldsUpNobody) {
  const auto opened = Loop::open();
  Loop& loop = **opened;
  Timer greedy(loop);
  std::function<void()> again = [&] { greedy.set(Instant{}, again); };
  greedy.set(Instant{}, again);
  std::string ran;
  Timer timer(loop);
  timer.set(now(), [&] {
    ran += 't';
    loop.post([&] {
      ran += 'p';
      ::kill(::getpid(), SIGUSR1);
    });
  });
  ASSERT_TRUE(loop.on_signal(SIGUSR1, [&](const SignalEvent&) {
    ran += 's';
    loop.stop();
  }));
  loop.run();
  EXPECT_EQ(ran, "tps");
}

TEST(Timer, AtTheEndOfTimeNeverComes) {
  const auto opened = Loop::open();
  Loop& loop = **opened;
  Timer never(loop);
  never.set({Duration::max()}, [] { FAIL(); });
  Timer far(loop);
  far.set({Duration::max() - 1ns}, [] { FAIL(); });
  Timer end(loop);
  end.set(now() + 1ms, [&] { loop.stop(); });
  loop.run();
}

TEST(Loop, HasOtherThingsToDoBesideATaskThatPostsItselfForEver) {
  const auto opened = Loop::open();
  Loop& loop = **opened;
  std::function<void()> again = [&] { loop.post(again); };
  loop.post(again);
  Timer timer(loop);
  timer.set(now() + 1ms, [&] { loop.stop(); });
  loop.run();
}

TEST(Loop, RunsNothingMoreOnceStopped) {
  const auto opened = Loop::open();
  Loop& loop = **opened;
  loop.post([&] { loop.stop(); });
  loop.post([] { FAIL(); });
  Timer timer(loop);
  timer.set(now() + 1h, [] { FAIL(); });
  loop.run();
  loop.post([] { FAIL(); });
  loop.run();  // Returns at once.
}

TEST(Loop, DropsWhatItNeverRanWhileItIsStillThere) {
  auto opened = Loop::open();
  Loop& loop = **opened;
  struct PostsAsItGoes {
    explicit PostsAsItGoes(Loop& its_loop) : loop(its_loop), timer(its_loop) {}
    ~PostsAsItGoes() {
      loop.post([] { FAIL(); });
    }
    Loop& loop;
    Timer timer;
  };
  loop.post([owned = std::make_shared<PostsAsItGoes>(loop)] { FAIL(); });
  opened->reset();
}

TEST(Loop, RunsEveryTaskOfManyThreadsEachInItsOrder) {
  for (const Duration linger : {Duration{}, Duration{20us}}) {
    const auto opened = Loop::open({.linger = linger});
    Loop& loop = **opened;
    constexpr int kThreads = 4;
    constexpr int kTasks = 2000;
    std::vector<int> next(kThreads);
    int left = kThreads * kTasks;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        for (int task = 0; task < kTasks; ++task)
          loop.post([&, thread, task] {
            EXPECT_EQ(next[thread]++, task);
            if (--left == 0) loop.stop();
          });
      });
    loop.run();
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(next, std::vector<int>(kThreads, kTasks));
  }
}

TEST(Loop, IsStoppedByAnotherThreadWhetherItSleepsOrLingers) {
  for (int round = 0; round < 200; ++round) {
    auto opened = Loop::open({.linger = round % 2 == 0 ? Duration{} : Duration{100us}});
    std::thread other([&loop = **opened] { loop.stop(); });
    (*opened)->run();
    opened->reset();  // The thread that stopped it does not hold it any more.
    other.join();
  }
}

TEST(Loop, ReadsWhatIsReadyBeforeATimerJudges) {
  struct Reader final : Watcher {
    void ready(std::uint32_t) override {
      char byte = 0;
      heard += ::read(fd, &byte, 1) == 1 ? 1 : 0;
    }
    int fd = -1;
    int heard = 0;
  };
  const auto opened = Loop::open();
  Loop& loop = **opened;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Reader reader;
  reader.fd = ends[0];
  ASSERT_TRUE(loop.sockets().add(ends[0], EPOLLIN, reader));
  Timer timer(loop);
  std::string posted;
  timer.set(now(), [&] {
    EXPECT_EQ(::write(ends[1], "x", 1), 1);
    loop.post([&] {
      posted = "not lost";
      loop.stop();
    });
    loop.read_what_is_ready();
    EXPECT_EQ(reader.heard, 1);
    EXPECT_EQ(posted, "");  // Only descriptors are served.
  });
  loop.run();
  EXPECT_EQ(posted, "not lost");
  loop.sockets().remove(ends[0], reader);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Loop, PutsAnotherHandlerInThePlaceOfTheOneThatRuns) {
  const auto opened = Loop::open();
  Loop& loop = **opened;
  std::string heard;
  ASSERT_TRUE(loop.on_signal(SIGUSR1, [&, name = std::string("first")](const SignalEvent&) {
    ASSERT_TRUE(loop.on_signal(SIGUSR1, [&](const SignalEvent&) {
      heard += " second";
      loop.stop();
    }));
    heard += name;
    ::kill(::getpid(), SIGUSR1);
  }));
  ::kill(::getpid(), SIGUSR1);
  loop.run();
  EXPECT_EQ(heard, "first second");
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
