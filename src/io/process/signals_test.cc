#include "io/process/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "io/process/process_testing.h"

namespace regroup::io {
namespace {

TEST(Signals, HaveTheNamesThatPeopleType) {
  EXPECT_EQ(signal_name(SIGTERM), "SIGTERM");
  EXPECT_EQ(signal_name(SIGUSR1), "SIGUSR1");
  EXPECT_EQ(signal_name(SIGABRT), "SIGABRT");
  EXPECT_EQ(signal_name(SIGRTMIN + 3), "SIGRTMIN+3");
  EXPECT_EQ(signal_name(99), "signal 99");
  EXPECT_EQ(signal_name(0), "signal 0");
}

TEST(Signals, AreToldInWords) {
  EXPECT_EQ(signal_in_words(SIGSEGV), "segmentation fault");
  EXPECT_EQ(signal_in_words(SIGKILL), "killed");
  EXPECT_EQ(signal_in_words(99), "signal 99");
}

TEST(Signals, AreFoundByNameOrNumber) {
  for (const char* text : {"SIGTERM", "TERM", "sigterm", "Term", "15"})
    EXPECT_EQ(signal_number(text), SIGTERM) << text;
  EXPECT_EQ(signal_number("64"), SIGRTMAX);
}

TEST(Signals, EveryNameLeadsBackToItsNumber) {
  for (int number = 1; number < 32; ++number)
    EXPECT_EQ(signal_number(signal_name(number)), number) << signal_name(number);
}

TEST(Signals, WhatIsNoneHasNoNumber) {
  for (const char* text : {"", "SIG", "SIGSIGTERM", "TERMINATE", "0", "-15", "65", "15x", " 15",
                           "99999999999", "SIG15"})
    EXPECT_FALSE(signal_number(text)) << text;
}

TEST(Signals, AreIgnoredIfTheProcessWasStartedSo) {
  Helper helper([] {
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGUSR1, [](int) {});
    ::signal(SIGTERM, SIG_DFL);
    return is_ignored(SIGHUP) && !is_ignored(SIGUSR1) && !is_ignored(SIGTERM) && !is_ignored(99)
               ? 0
               : 1;
  });
  EXPECT_EQ(helper.wait(), 0);
}

TEST(Signals, ReachTheProcessThatWasSeen) {
  Process process = start_one(shell("exec sleep 1000"));
  const auto seen = find_process(process.pid());
  ASSERT_TRUE(seen);
  EXPECT_TRUE(signal_exactly(*seen, SIGUSR1));
  EXPECT_EQ(end_of(process).signal, SIGUSR1);
}

TEST(Signals, NeverReachAnotherProcessWithTheSamePid) {
  Process process = start_one(shell("exec sleep 1000"));
  auto seen = find_process(process.pid());
  ASSERT_TRUE(seen);
  seen->start_time -= 1;  // The process that we saw had begun earlier: this is another one.
  EXPECT_FALSE(signal_exactly(*seen, SIGKILL));
  EXPECT_TRUE(lives(process.pid()));
  seen->start_time += 1;
  EXPECT_TRUE(signal_exactly(*seen, SIGKILL));
  end_of(process);
  process.reap();
  EXPECT_FALSE(signal_exactly(*seen, SIGKILL));  // Gone.
}

}  // namespace
}  // namespace regroup::io
