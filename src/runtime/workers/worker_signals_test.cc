#include "runtime/workers/worker_signals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "io/process/process_testing.h"

namespace regroup::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(WorkerSignals, AreAListOfNamesAndNumbers) {
  const auto names = parse_signals("SIGTERM, int,10 ,usr2");
  EXPECT_THAT(names.numbers, ElementsAre(SIGTERM, SIGINT, SIGUSR1, SIGUSR2));
  EXPECT_THAT(names.unknown, IsEmpty());
}

TEST(WorkerSignals, AnEmptyListIsNone) {
  for (const char* text : {"", " ", ",", " , ,"}) {
    const auto names = parse_signals(text);
    EXPECT_THAT(names.numbers, IsEmpty()) << "'" << text << "'";
    EXPECT_THAT(names.unknown, IsEmpty()) << "'" << text << "'";
  }
}

TEST(WorkerSignals, NamedTwiceCountOnce) {
  EXPECT_THAT(parse_signals("TERM,SIGTERM,15").numbers, ElementsAre(SIGTERM));
}

TEST(WorkerSignals, WhatIsNoSignalIsNamed) {
  const auto names = parse_signals("SIGBREAK,SIGTERM,0,65");
  EXPECT_THAT(names.numbers, ElementsAre(SIGTERM));
  EXPECT_THAT(names.unknown, ElementsAre("SIGBREAK", "0", "65"));
}

// SIGKILL and SIGSTOP reach no handler; SIGCHLD is how we hear of our own children.
TEST(WorkerSignals, WhatNobodyCanCatchIsNamed) {
  const auto names = parse_signals("SIGKILL,STOP,17,USR1");
  EXPECT_THAT(names.numbers, ElementsAre(SIGUSR1));
  EXPECT_THAT(names.unknown, ElementsAre("SIGKILL", "STOP", "17"));
}

TEST(WorkerSignals, TheDefaultsAreSignals) {
  EXPECT_THAT(parse_signals(kSignalsToHandle).unknown, IsEmpty());
  EXPECT_THAT(parse_signals(kSignalsToForward).unknown, IsEmpty());
}

TEST(WorkerSignals, AreDescribedWithTheirSender) {
  const std::string text = describe_signal({.number = SIGTERM, .sender = ::getpid()});
  EXPECT_THAT(text, StartsWith("SIGTERM from pid " + std::to_string(::getpid()) + " ("));
  EXPECT_THAT(text, HasSubstr("runtime"));
}

TEST(WorkerSignals, OfASenderThatIsGoneOnlyThePidIsTold) {
  const pid_t gone = [] {
    auto process = io::start_one(io::shell("true"));
    io::end_of(process);
    process.reap();
    return process.pid();
  }();
  EXPECT_EQ(describe_signal({.number = SIGTERM, .sender = gone}),
            "SIGTERM from pid " + std::to_string(gone));
}

TEST(WorkerSignals, OfTheKernelAreDescribedByTheirCause) {
  EXPECT_EQ(describe_signal({.number = SIGINT, .by_kernel = true}), "SIGINT (Ctrl-C)");
  EXPECT_EQ(describe_signal({.number = SIGQUIT, .by_kernel = true}), "SIGQUIT (Ctrl-\\)");
  EXPECT_EQ(describe_signal({.number = SIGHUP, .by_kernel = true}),
            "SIGHUP (terminal closed; nohup, tmux or setsid outlive it)");
  EXPECT_EQ(describe_signal({.number = SIGUSR1, .by_kernel = true}), "SIGUSR1");
  EXPECT_EQ(describe_signal({.number = SIGINT}), "SIGINT from outside of this container");
}

// What is heard when a process sends these signals to itself, one after the other; the last one
// ends it and must be handled. In a child, for signals belong to a whole process.
struct Heard {
  std::vector<int> handled;
  std::vector<int> forwarded;
};
Heard hear(const SignalChoice& choice, const std::vector<int>& sent) {
  Heard heard;
  const auto loop = std::move(*io::Loop::open());
  const auto ready = hear_signals(
      *loop, choice,
      [&](const io::SignalEvent& event) {
        heard.handled.push_back(event.number);
        if (event.number == sent.back()) loop->stop();
      },
      [&](const io::SignalEvent& event) { heard.forwarded.push_back(event.number); });
  CHECK(ready.has_value());
  for (const int number : sent) ::kill(::getpid(), number);
  loop->run();
  return heard;
}

TEST(WorkerSignals, EndTheRunOrAreHandedOn) {
  io::Helper helper([] {
    const auto heard = hear({.handle = {SIGTERM}, .forward = {SIGUSR1}}, {SIGUSR1, SIGTERM});
    return heard.handled == std::vector{SIGTERM} && heard.forwarded == std::vector{SIGUSR1} ? 0 : 1;
  });
  EXPECT_EQ(helper.wait(), 0);
}

TEST(WorkerSignals, InBothListsTheyEndTheRun) {
  io::Helper helper([] {
    const auto heard = hear({.handle = {SIGUSR1}, .forward = {SIGUSR1}}, {SIGUSR1});
    return heard.handled == std::vector{SIGUSR1} && heard.forwarded.empty() ? 0 : 1;
  });
  EXPECT_EQ(helper.wait(), 0);
}

TEST(WorkerSignals, WhatWasIgnoredStaysIgnored) {
  io::Helper helper([] {
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGUSR2, SIG_IGN);
    const auto heard =
        hear({.handle = {SIGHUP, SIGTERM}, .forward = {SIGUSR2}}, {SIGHUP, SIGUSR2, SIGTERM});
    return heard.handled == std::vector{SIGTERM} && heard.forwarded.empty() ? 0 : 1;
  });
  EXPECT_EQ(helper.wait(), 0);
}

}  // namespace
}  // namespace regroup::runtime
