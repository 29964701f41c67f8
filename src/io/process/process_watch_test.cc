#include "io/process/process_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "io/loop/loop.h"

namespace regroup::io {
namespace {

// A child that sleeps until it is killed.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ != 0) return;
    for (;;) ::pause();
  }
  ~Sleeper() { end(); }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(ProcessWatch, HearsOfTheEndOnce) {
  auto loop = Loop::open();
  ASSERT_TRUE(loop);
  Sleeper sleeper;
  auto watch = ProcessWatch::open(sleeper.pid());
  ASSERT_TRUE(watch && *watch);
  int ends = 0;
  ASSERT_TRUE((*watch)->watch(**loop, [&] {
    ++ends;
    watch->reset();  // The callback may.
    (*loop)->post([&] { (*loop)->stop(); });
  }));
  EXPECT_EQ((*watch)->signal(0), 0);
  EXPECT_EQ((*watch)->signal(SIGKILL), 0);
  (*loop)->run();
  EXPECT_EQ(ends, 1);
}

TEST(ProcessWatch, WhoIsGoneCannotBeSignalledNorWatched) {
  Sleeper sleeper;
  const pid_t pid = sleeper.pid();
  auto watch = ProcessWatch::open(pid);
  ASSERT_TRUE(watch && *watch);
  sleeper.end();
  EXPECT_EQ((*watch)->signal(SIGKILL), ESRCH);
  const auto late = ProcessWatch::open(pid);
  ASSERT_TRUE(late);
  EXPECT_EQ(*late, nullptr);
}

TEST(BelongsTo, AProcessBelongsToItsAncestors) {
  const Sleeper sleeper;
  EXPECT_TRUE(belongs_to(sleeper.pid(), {.leaders = {}, .reaper = ::getpid()}));
  EXPECT_FALSE(
      belongs_to(sleeper.pid(), {.leaders = {}, .reaper = ::getpid(), .spared = {sleeper.pid()}}));
  EXPECT_FALSE(belongs_to(sleeper.pid(), {.leaders = {}}));
  EXPECT_FALSE(belongs_to(::getpid(), {.leaders = {}, .reaper = ::getpid()}));
  EXPECT_FALSE(belongs_to(1, {.leaders = {}, .reaper = ::getpid()}));
}

TEST(BelongsTo, TheDeadBelongToNobody) {
  Sleeper sleeper;
  const pid_t pid = sleeper.pid();
  sleeper.end();
  EXPECT_FALSE(belongs_to(pid, {.leaders = {}, .reaper = ::getpid()}));
}

}  // namespace
}  // namespace regroup::io
