// Timers of processes, which come through a named pipe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "io/file/fifo.h"
#include "regroup/timer.h"
#include "runtime/watchdog/timer_testing.h"

namespace regroup {
namespace {

using testing::HasSubstr;

TEST_F(PipeTimers, AProcessThatIsLateIsKilledAndOneThatReleasesIsNot) {
  serve();
  Child good([this] {
    PipeTimerClient client(path);
    if (!client.acquire("a", in(0.2)) || !client.release("a")) ::_exit(1);
  });
  Child late([this] {
    if (!PipeTimerClient(path).acquire("a", in(0.5))) ::_exit(1);
  });
  EXPECT_EQ(late.wait(), SIGKILL);
  const auto told = expired.wait_for(1);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].signal, SIGKILL);
  EXPECT_THAT(told[0].why, HasSubstr("timer expired: scope a after 0."));
  EXPECT_EQ(::kill(good.pid(), 0), 0);
}

TEST_F(PipeTimers, TheSignalIsTheTimers) {
  serve();
  Child child([this] {
    if (!PipeTimerClient(path, 0).acquire("none", in(-2)) ||
        !PipeTimerClient(path, SIGTERM).acquire("term", in(0.1)) ||
        !PipeTimerClient(path, SIGKILL).acquire("kill", in(0.2)))
      ::_exit(1);
  });
  EXPECT_EQ(child.wait(), SIGTERM);
}

TEST_F(PipeTimers, TellsEventsWithTheRequestAsItCame) {
  serve();
  const double soon = in(0.1);
  Child child([this, soon] {
    if (!PipeTimerClient(path, 0).acquire("none", soon - 5) ||
        !PipeTimerClient(path, SIGTERM).acquire("term", soon) ||
        !PipeTimerClient(path, SIGKILL).acquire("kill", soon + 600))
      ::_exit(1);
  });
  const TimerRequest none{
      .worker_id = child.pid(), .scope_id = "none", .expiration_time = soon - 5};
  const TimerRequest term{
      .worker_id = child.pid(), .scope_id = "term", .expiration_time = soon, .signal = SIGTERM};
  EXPECT_EQ(child.wait(), SIGTERM);
  events.wait_for(4);
  EXPECT_GE(server->last_progress_time(), static_cast<std::int64_t>(soon) - 1);
  server.reset();
  const auto told = events.wait_for(5);
  ASSERT_EQ(told.size(), 5U);
  EXPECT_EQ(told[0].name, "watchdog started");
  EXPECT_EQ(told[1].name, "timer expired");
  EXPECT_EQ(told[1].request, none) << "also without a signal";
  EXPECT_EQ(told[2].name, "timer expired");
  EXPECT_EQ(told[2].request, term);
  EXPECT_EQ(told[3].name, "kill worker process");
  EXPECT_EQ(told[3].request, term);
  EXPECT_EQ(told[4].name, "watchdog stopped");
  EXPECT_FALSE(told[4].request);
}

TEST_F(PipeTimers, GoesOnWhenAFunctionOfTheUserThrows) {
  throws = true;
  serve();
  for (int i = 0; i < 2; ++i) {
    Child late([this] {
      if (!PipeTimerClient(path).acquire("a", in(-1))) ::_exit(1);
    });
    EXPECT_EQ(late.wait(), SIGKILL);
  }
  EXPECT_EQ(expired.wait_for(2).size(), 2U);
}

TEST_F(PipeTimers, AChildOfAChildIsEndedAloneAndWeNever) {
  serve();
  Child child([this] {
    if (::fork() == 0) {
      if (!PipeTimerClient(path).acquire("a", in(-1))) ::_exit(1);
      for (;;) ::pause();
    }
  });
  const auto told = expired.wait_for(1);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].pid, child.pid());
  EXPECT_EQ(::kill(child.pid(), 0), 0);

  PipeTimerClient client(path);
  ASSERT_TRUE(client.acquire("ours", in(-1)));
  const std::string init =
      R"({"version": 1, "pid": 1, "scope_id": "s", "expiration_time": 0, "signal": 9})"
      "\n";
  ASSERT_TRUE(io::write_to_fifo(path, init, 10s));
  const auto warned = warnings.wait_for(2);
  ASSERT_EQ(warned.size(), 2u);
  EXPECT_THAT(warned[0], HasSubstr("a timer of process " + std::to_string(::getpid())));
  EXPECT_THAT(warned[1], HasSubstr("a timer of process 1 "));
}

TEST_F(PipeTimers, ABrokenLineCostsNobodyElseHis) {
  serve();
  Child late([this] {
    if (!io::write_to_fifo(path, "rubbish\n{\"version\": 1, \"pi", 10s) ||
        !PipeTimerClient(path).acquire("a", in(0.1)) || !io::write_to_fifo(path, "\n\n[1]\n", 10s))
      ::_exit(1);
  });
  EXPECT_EQ(late.wait(), SIGKILL);
  EXPECT_EQ(warnings.wait_for(3).size(), 3u);
}

TEST_F(PipeTimers, ManyAtOnceLoseNothing) {
  serve();
  constexpr int kChildren = 50;
  std::vector<std::unique_ptr<Child>> children;
  children.reserve(kChildren);
  for (int i = 0; i < kChildren; ++i)
    children.push_back(std::make_unique<Child>([this, i] {
      PipeTimerClient client(path);
      for (int n = 0; n < 100; ++n) {
        const std::string scope = std::to_string(n % 7);
        if (!client.acquire(scope, in(600)) || (n % 2 == 0 && !client.release(scope))) ::_exit(1);
      }
      if (i % 2 == 1 && !client.acquire("late", in(0.1))) ::_exit(1);
    }));
  for (int i = 1; i < kChildren; i += 2) EXPECT_EQ(children[i]->wait(), SIGKILL);
  std::set<int> late;
  for (const Expired& one : expired.wait_for(kChildren / 2)) late.insert(one.pid);
  EXPECT_EQ(late.size(), std::size_t{kChildren / 2});
  for (int i = 0; i < kChildren; i += 2) EXPECT_EQ(::kill(children[i]->pid(), 0), 0);
}

TEST_F(PipeTimers, AClientHearsWhatIsWrong) {
  PipeTimerClient client(path);
  const auto absent = client.acquire("a", in(5));
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().kind, ErrorKind::Connection);
  serve();
  const auto too_long = client.acquire(std::string(4096, 'x'), in(5));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().kind, ErrorKind::InvalidArgument);
  EXPECT_THAT(too_long.error().message, HasSubstr("Choose a shorter one"));
  server.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(client.release("a").error().kind, ErrorKind::Connection);
}

}  // namespace
}  // namespace regroup
