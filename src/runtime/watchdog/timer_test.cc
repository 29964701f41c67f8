#include "regroup/timer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "io/file/fifo.h"
#include "io/loop/clock.h"
#include "io/loop/loop.h"
#include "runtime/watchdog/watchdog_host.h"
#include "runtime/watchdog/worker_heartbeats.h"

namespace regroup {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kNever = std::numeric_limits<double>::infinity();

double in(double seconds) { return static_cast<double>(io::utc_micros()) / 1e6 + seconds; }

// Things that happen on other threads, waited for.
template <class T>
class Told {
 public:
  void tell(T one) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(one));
    came_.notify_all();
  }
  std::vector<T> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, 60s, [&] { return all_.size() >= count; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<T> all_;
};

// ---- The queue ----

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
      ElementsAre(TimerRequest{.worker_id = ::getpid(), .scope_id = "a", .expiration_time = 17},
                  TimerRequest{.worker_id = ::getpid(), .scope_id = "a", .expiration_time = -1}));
}

// ---- The server behind a queue ----

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

TEST_F(TimerServerTest, StartsAndStopsAsOftenAsYouLike) {
  TimerServer server(queue, kLong, [this](const ExpiredWorker& worker) { return reap(worker); });
  server.stop();
  for (int i = 0; i < 3; ++i) {
    server.start();
    server.start();
    server.stop();
  }
}

// ---- Processes ----

// A child that does something and then sleeps until it is killed.
class Child {
 public:
  template <class Work>
  explicit Child(Work work) : pid_(::fork()) {
    if (pid_ != 0) return;
    work();
    for (;;) ::pause();
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // The signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  pid_t pid_;
};

class PipeTimers : public testing::Test {
 public:
  PipeTimers() {
    std::string name = (std::filesystem::temp_directory_path() / "timer_testXXXXXX").string();
    folder = ::mkdtemp(name.data());
    path = (folder / "pipe").string();
  }
  ~PipeTimers() override {
    server.reset();
    configure(nullptr);
    std::filesystem::remove_all(folder);
  }

 protected:
  void serve() {
    auto opened = PipeTimerServer::open(
        {.path = path,
         .on_expired =
             [this](int pid, int signal, const std::string& why) {
               expired.tell({pid, signal, why});
             },
         .on_warning = [this](const std::string& line) { warnings.tell(line); }});
    ASSERT_TRUE(opened) << opened.error().message;
    server = std::move(*opened);
  }

  struct Expired {
    int pid;
    int signal;
    std::string why;
  };
  std::filesystem::path folder;
  std::string path;
  Told<Expired> expired;
  Told<std::string> warnings;
  std::unique_ptr<PipeTimerServer> server;
};

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
  EXPECT_THAT(told[0].why, HasSubstr("timer expired: scope a after 0.5 s"));
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

// ---- expires() ----

class NotedClient final : public TimerClient {
 public:
  Result<void> acquire(const std::string& scope, double) override {
    if (refuses) return fail(ErrorKind::Connection, "no");
    calls.push_back("+" + scope);
    return {};
  }
  Result<void> release(const std::string& scope) override {
    calls.push_back("-" + scope);
    return {};
  }
  bool refuses = false;
  std::vector<std::string> calls;
};

TEST(Expires, HoldsATimerWhileTheGuardIsThere) {
  auto client = std::make_shared<NotedClient>();
  configure(client);
  {
    const auto guard = expires(30s, "step");
    ASSERT_TRUE(guard);
    EXPECT_THAT(client->calls, ElementsAre("+step"));
  }
  EXPECT_THAT(client->calls, ElementsAre("+step", "-step"));
  configure(nullptr);
}

TEST(Expires, TheScopeIsTheCallersFileAndLine) {
  auto client = std::make_shared<NotedClient>();
  configure(client);
  { const auto guard = expires(30s); }
  const std::string scope =
      std::string(std::source_location::current().file_name()) + "#" + std::to_string(__LINE__ - 2);
  EXPECT_THAT(client->calls, ElementsAre("+" + scope, "-" + scope));
  configure(nullptr);
}

TEST(Expires, AGuardReleasesOnceHoweverItIsMovedAbout) {
  auto client = std::make_shared<NotedClient>();
  {
    auto one = expires(30s, "a", client);
    auto two = expires(30s, "b", client);
    ASSERT_TRUE(one && two);
    ExpiresGuard moved = std::move(*one);
    moved = std::move(*two);
    EXPECT_THAT(client->calls, ElementsAre("+a", "+b", "-a"));
    EXPECT_TRUE(moved.release());
  }
  EXPECT_THAT(client->calls, ElementsAre("+a", "+b", "-a", "-b"));
}

TEST(Expires, SaysWhyNothingIsWatched) {
  ::unsetenv("TORCHELASTIC_TIMER_FILE");
  configure(nullptr);
  const auto none = expires(30s);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("--watchdog"));
  auto client = std::make_shared<NotedClient>();
  client->refuses = true;
  EXPECT_FALSE(expires(30s, "a", client));
  EXPECT_THAT(client->calls, IsEmpty());
}

TEST_F(PipeTimers, ExpiresUsesThePipeOfTheLauncher) {
  serve();
  Child late([this] {
    ::setenv("TORCHELASTIC_TIMER_FILE", path.c_str(), 1);
    configure(nullptr);
    { const auto fine = expires(600s, "fine"); }
    auto guard = expires(50ms, "late");
    if (!guard) ::_exit(1);
    for (;;) ::pause();
  });
  EXPECT_EQ(late.wait(), SIGKILL);
  EXPECT_THAT(expired.wait_for(1).at(0).why, HasSubstr("scope late"));
}

// ---- heartbeat() ----

TEST_F(PipeTimers, AHeartbeatThatStopsIsMissed) {
  auto loop = io::Loop::open();
  ASSERT_TRUE(loop);
  std::vector<std::pair<int, std::string>> silenced;
  runtime::WorkerHeartbeats heartbeats(**loop, [&](int rank, const std::string& why) {
    silenced.emplace_back(rank, why);
    (*loop)->stop();
  });
  const auto files = heartbeats.open(2);
  ASSERT_TRUE(files) << files.error().message;
  auto watchdog = runtime::WatchdogHost::open(**loop, path,
                                              {.belongs = [](pid_t) { return true; },
                                               .expired = [](const runtime::Expiry&) {},
                                               .heartbeat = [&] { heartbeats.look(); },
                                               .note = [](const std::string&) {},
                                               .warn = [](const std::string&) {}});
  ASSERT_TRUE(watchdog) << watchdog.error().message;
  Child child([this, &files] {
    ::setenv("TORCHELASTIC_TIMER_FILE", path.c_str(), 1);
    ::setenv("REGROUP_HEARTBEAT_FILE", (*files)[1].c_str(), 1);
    for (int i = 0; i < 50; ++i)
      if (!heartbeat(60s)) ::_exit(1);
    heartbeat_stop();
    if (!heartbeat(100ms)) ::_exit(1);
    // What one process of a worker has begun, another may stop.
    const pid_t stopper = ::fork();
    if (stopper == 0) {
      heartbeat_stop();
      ::_exit(0);
    }
    ::waitpid(stopper, nullptr, 0);
    if (!heartbeat(100ms)) ::_exit(1);
  });
  (*loop)->run();
  ASSERT_EQ(silenced.size(), 1u);
  EXPECT_EQ(silenced[0].first, 1);
  EXPECT_THAT(silenced[0].second, HasSubstr("no heartbeat for "));
  EXPECT_THAT(silenced[0].second, HasSubstr("(limit 0.1 s)"));
}

TEST(Heartbeat, DoesNothingWithoutAWatchdog) {
  const pid_t child = ::fork();  // What it finds out about its environment stays with a process.
  if (child == 0) {
    ::unsetenv("REGROUP_HEARTBEAT_FILE");
    const bool fine = heartbeat(1ns).has_value();
    heartbeat_stop();
    ::_exit(fine ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace regroup
