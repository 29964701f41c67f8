#include "io/process/process_look.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "io/file/pipe.h"
#include "io/loop/clock.h"
#include "io/process/process.h"

namespace regroup::io {
namespace {

TEST(ProcessLook, SeesInWhichCallAProcessWaits) {
  auto sleeper = start_processes({{.argv = {"/bin/sleep", "100"}, .environment = {}}});
  ASSERT_TRUE(sleeper);
  const pid_t pid = (*sleeper)[0].pid();
  std::optional<ProcessLook> look = look_at(pid);
  // The state is read first: it may still be on its way to sleep then.
  while (look && (look->system_call != "sleep" || look->state != 'S')) look = look_at(pid);
  ASSERT_TRUE(look);
  EXPECT_EQ(look->threads, 1);
  EXPECT_FALSE(look->catches(SIGUSR1));
}

TEST(ProcessLook, SeesOnWhatItWaits) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Descriptor read(ends[0]);
  const Descriptor write(ends[1]);
  auto reader = start_processes({{.argv = {"/bin/cat"}, .environment = {}, .input = read.get()}});
  ASSERT_TRUE(reader);
  auto look = look_at((*reader)[0].pid());
  while (look && look->call_target.substr(0, 5) != "pipe:") look = look_at((*reader)[0].pid());
  ASSERT_TRUE(look);
  EXPECT_EQ(look->system_call, "read");
}

TEST(ProcessLook, AddsUpTheCodeThatAProcessMaps) {
  auto small = start_processes({{.argv = {"/bin/sleep", "100"}, .environment = {}}});
  ASSERT_TRUE(small);
  EXPECT_GT(mapped_code((*small)[0].pid()), 1000U);
  EXPECT_LT(mapped_code((*small)[0].pid()), 32U << 20);
  EXPECT_EQ(mapped_code(-1), 0U);
}

TEST(ProcessLook, KnowsWhichSignalsAreCaught) {
  auto shell =
      start_processes({{.argv = {"/bin/sh", "-c", "trap : USR2; while :; do sleep 0.01; done"},
                        .environment = {"PATH=/usr/bin:/bin"}}});
  ASSERT_TRUE(shell);
  std::optional<ProcessLook> look = look_at((*shell)[0].pid());
  while (look && !look->catches(SIGUSR2)) look = look_at((*shell)[0].pid());
  ASSERT_TRUE(look);
  EXPECT_FALSE(look->catches(SIGUSR1));
}

TEST(ProcessLook, CountsWhatWeOurselvesUse) {
  const auto before = use_of(::getpid());
  ASSERT_TRUE(before);
  const auto null = open_null();
  ASSERT_TRUE(null);
  const std::string bytes(100'000, 'x');
  write_all(null->get(), bytes);
  const Instant begun = now();
  volatile unsigned work = 0;
  auto after = use_of(::getpid());
  while (after && after->cpu <= before->cpu && now() - begun < 60s) {
    for (int i = 0; i < 1'000'000; ++i) work = work + 1;
    after = use_of(::getpid());
  }
  ASSERT_TRUE(after);
  EXPECT_GT(after->cpu, before->cpu);
  // Where /proc/PID/io is not there to be read, both are 0.
  if (before->written != 0) {
    EXPECT_GE(after->written, before->written + bytes.size());
  }
}

TEST(ProcessLook, NobodyIsNothing) {
  EXPECT_FALSE(look_at(0x3fffffff));
  EXPECT_FALSE(use_of(0x3fffffff));
}

}  // namespace
}  // namespace regroup::io
