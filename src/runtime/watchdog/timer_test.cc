// What a worker calls: expires() and heartbeat().
#include "regroup/timer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "io/loop/loop.h"
#include "runtime/watchdog/timer_testing.h"
#include "runtime/watchdog/watchdog_host.h"
#include "runtime/watchdog/worker_heartbeats.h"

namespace regroup {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

TEST(Expires, AClientNeedsNoScopeOfItsOwn) {
  auto client = std::make_shared<NotedClient>();
  const auto guard = expires(30s, client);
  ASSERT_TRUE(guard);
  EXPECT_THAT(guard->scope(), HasSubstr("timer_test.cc#"));
  EXPECT_EQ(client->calls.size(), 1U);
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
  auto watchdog =
      runtime::WatchdogHost::open(**loop, path,
                                  {.belongs = [](pid_t) { return true; },
                                   .expired = [](const runtime::Expiry&) { return false; },
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
