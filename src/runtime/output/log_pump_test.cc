#include "runtime/output/log_pump.h"

#include <gmock/gmock.h>

#include <map>

#include "core/output/limits.h"
#include "io/file/pseudo_terminal.h"
#include "runtime/common/limits.h"
#include "runtime/output/log_pump_testing.h"

namespace regroup::runtime {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

const StreamRoute kHidden{"", Console::No};
const StreamRoute kAsIs{"", Console::AsIs};

TEST_F(LogPumpTest, TeesWithThePrefixOfTorchrun) {
  start({});
  open(2, {path("%d.out"), Console::Prefixed}, {path("%d.err"), Console::Prefixed});
  out(0, "one\ntwo\n");
  EXPECT_EQ(drain(), std::vector<int>{});
  EXPECT_EQ(contents(path("0.out")), "one\ntwo\n");
  EXPECT_EQ(contents(path("1.out")), "");
  EXPECT_EQ(pump->counters().bytes, 8u);
  EXPECT_TRUE(pump->flush_console(60s));
  EXPECT_EQ(pump->counters().lines, 2u);
  EXPECT_EQ(shown(), "[default0]:one\n[default0]:two\n");
}

TEST_F(LogPumpTest, PrefixesAreTemplates) {
  start({.prefix_template = "${role_name}/${role} $rank.${local_rank} ${nothing} $$ "});
  open(2, {path("%d.out"), Console::Prefixed});
  out(1, "hello\n");
  drain();
  EXPECT_EQ(shown(), "default/default 101.1 ${nothing} $ hello\n");
}

TEST_F(LogPumpTest, APrefixMayTellHostAndTime) {
  start({.prefix_template = "${host} ${hostname} ${time}|"});
  open(1, {"", Console::Prefixed});
  out(0, "hello\n");
  drain();
  EXPECT_THAT(shown(),
              testing::MatchesRegex("([^. ]+) [^. ]+ [0-9]{2}:[0-9]{2}:[0-9]{2}.[0-9]{3}.hello\n"));
}

TEST_F(LogPumpTest, OneStreamWithoutAPrefixIsShownAsItIs) {
  start({});
  open(1, kAsIs, kAsIs);
  const std::string bytes("a\r\n\0\xff\x1b[1m\rx\n", 12);
  out(0, bytes);
  drain();
  EXPECT_EQ(shown(), bytes);
}

TEST_F(LogPumpTest, OutputAndErrorsHaveTheirOwnConsoles) {
  ReadConsole errors;
  start({.console_err = errors.fd()});
  open(1, {"", Console::Prefixed}, {"", Console::Prefixed});
  out(0, "out\n");
  err(0, "err\n");
  drain();
  EXPECT_EQ(shown(), "[default0]:out\n");
  EXPECT_EQ(errors.text(), "[default0]:err\n");
}

TEST_F(LogPumpTest, GivesTheWorkerItsFileWhereNobodyElseLooks) {
  start({});
  open(1, {path("out"), Console::No}, {path("err"), Console::No});
  EXPECT_EQ(io::kind_of(streams[0].first.get()), io::FdKind::File);
  err(0, "one\ntwo\n");
  EXPECT_EQ(contents(path("err")), "one\ntwo\n");
  EXPECT_EQ(pump->tail(0).text, "one\ntwo\n");
  EXPECT_EQ(drain(), std::vector<int>{});
  EXPECT_EQ(shown(), "");
}

TEST_F(LogPumpTest, WhatIsHiddenStillHasATail) {
  start({});
  open(1, kHidden, kHidden);
  EXPECT_EQ(io::kind_of(streams[0].first.get()), io::FdKind::Device);
  out(0, "unseen\n");
  err(0, "Traceback\nValueError: x");
  drain();
  EXPECT_EQ(pump->tail(0).text, "Traceback\nValueError: x");
  EXPECT_EQ(pump->tail(1).text, "");
  EXPECT_EQ(shown(), "");
}

TEST_F(LogPumpTest, TheTailOfAWorkerThatHasJustWrittenIsThereAfterCatchingUp) {
  start({});
  open(1, kHidden, {"", Console::Prefixed});
  for (int i = 0; i < 50; ++i) {  // From the second on, the pump is at rest.
    const std::string line = std::to_string(i) + "\n";
    err(0, line);
    pump->catch_up(60s);
    EXPECT_THAT(pump->tail(0).text, EndsWith(line));
  }
  drain();
}

TEST_F(LogPumpTest, TheTailIsTheEndFromALineOn) {
  start({});
  open(1, kHidden, {"", Console::Prefixed});
  for (int i = 0; i < 1000; ++i) err(0, std::string(199, 'x') + "\n");
  err(0, "last words\n");
  drain();
  const std::string tail = pump->tail(0).text;
  EXPECT_LE(tail.size(), core::output::kTailBytes);
  EXPECT_GT(tail.size(), core::output::kTailBytes - 201);
  EXPECT_THAT(tail, EndsWith("x\nlast words\n"));
  EXPECT_EQ((tail.size() - 11) % 200, 0u);
}

TEST_F(LogPumpTest, WhatIsWrittenFirstIsShownFirstWhereBothGoToTheSamePlace) {
  const io::Descriptor file(
      ::open(path("file").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  for (const int same : {console.fd(), file.get()}) {
    start({.console_out = same, .console_err = same});
    for (const auto& route : {kAsIs, StreamRoute{"", Console::Prefixed},
                              StreamRoute{path("both%d"), Console::Prefixed}}) {
      open(2, route, route);
      EXPECT_TRUE(io::is_same_file(streams[0].first.get(), streams[0].second.get()));
      EXPECT_FALSE(io::is_same_file(streams[0].first.get(), streams[1].first.get()));
      std::string written;
      std::string expected;
      for (int i = 0; i < 200; ++i) {
        const std::string line = "line " + std::to_string(i) + "\n";
        if (i % 2 == 0) out(1, line);
        if (i % 2 == 1) err(1, line);
        written += line;
        expected += (route == kAsIs ? "" : "[default1]:") + line;
      }
      drain();
      EXPECT_EQ(pump->tail(1).text, written);
      EXPECT_TRUE(pump->tail(1).of_both);
      ASSERT_TRUE(pump->flush_console(60s));
      if (same == file.get()) {
        EXPECT_EQ(contents(path("file")), expected);
        ASSERT_EQ(::ftruncate(file.get(), 0), 0);
      } else {
        console.await("line 199\n", 1);
        EXPECT_EQ(console.take(), expected);
      }
      if (!route.file.empty()) {
        EXPECT_EQ(contents(path("both1")), written);
      }
      std::filesystem::remove(path("both1"));
    }
    pump.reset();
  }
}

TEST_F(LogPumpTest, BothStreamsHaveOneTerminalWhereTheConsoleIsOne) {
  auto terminal = io::make_pseudo_terminal(0);
  ASSERT_TRUE(terminal) << terminal.error().message;
  ReadConsole shown(std::move(terminal->master), std::move(terminal->slave));
  start({.console_out = shown.fd(), .console_err = shown.fd()});
  open(1, kAsIs, kAsIs);
  EXPECT_EQ(io::kind_of(streams[0].first.get()), io::FdKind::Terminal);
  EXPECT_TRUE(io::is_same_file(streams[0].first.get(), streams[0].second.get()));
  drain();
}

TEST_F(LogPumpTest, StreamsWithFiltersOrFilesOfTheirOwnStayTwo) {
  start({.out_filters = {"loss"}});
  open(1, {"", Console::Prefixed}, {"", Console::Prefixed});
  EXPECT_FALSE(io::is_same_file(streams[0].first.get(), streams[0].second.get()));
  drain();
  open(1, {path("out"), Console::Prefixed}, {path("err"), Console::Prefixed});
  EXPECT_FALSE(io::is_same_file(streams[0].first.get(), streams[0].second.get()));
  err(0, "err\n");
  drain();
  EXPECT_FALSE(pump->tail(0).of_both);
}

TEST_F(LogPumpTest, InheritsAConsoleThatIsAFile) {
  for (const std::string& name : {path("console"), std::string("/dev/null")}) {
    const io::Descriptor file(
        ::open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    const bool is_null = name == "/dev/null";
    start({.console_out = file.get(), .console_err = is_null ? file.get() : console.fd()});
    open(1, kAsIs, kAsIs);
    EXPECT_TRUE(io::is_same_file(streams[0].first.get(), file.get()));
    EXPECT_EQ(io::kind_of(streams[0].second.get()), io::FdKind::Stream);
    err(0, "seen\n");
    drain();
    EXPECT_EQ(pump->tail(0).text, "seen\n");
    pump.reset();
  }
  EXPECT_EQ(console.text(), "seen\n");
}

TEST_F(LogPumpTest, ANewlineIsAddedOnTheConsoleAlone) {
  start({});
  open(2, {path("%d.out"), Console::Prefixed});
  out(0, "no end");
  out(1, "whole\n");
  drain();
  EXPECT_EQ(contents(path("0.out")), "no end");
  EXPECT_THAT(shown(), testing::AnyOf("[default0]:no end\n[default1]:whole\n",
                                      "[default1]:whole\n[default0]:no end\n"));
}

TEST_F(LogPumpTest, OfAProgressBarThePipeGetsTheEndAndTheFileEverything) {
  start({});
  open(1, {path("out"), Console::Prefixed});
  std::string bar;
  for (int i = 0; i <= 100; ++i) bar += "\r" + std::to_string(i) + "%";
  out(0, bar + "\ndos\r\n");
  drain();
  EXPECT_EQ(contents(path("out")), bar + "\ndos\r\n");
  EXPECT_EQ(shown(), "[default0]:100%\n[default0]:dos\r\n");
}

TEST_F(LogPumpTest, ABarThatIsTeedTellsHowFarItIsBeforeItsEnd) {
  start({.bar_state = 1ms});
  open(1, {path("%d.out"), Console::Prefixed});
  out(0, "\r10%\r20%");
  console.await("[default0]:20%\n");
  out(0, "\r99%\r100%");
  console.await("[default0]:100%\n");
  out(0, "\nnext\n");
  drain();
  EXPECT_EQ(shown(), "[default0]:20%\n[default0]:100%\n[default0]:next\n");
  EXPECT_EQ(contents(path("0.out")), "\r10%\r20%\r99%\r100%\nnext\n");
}

TEST_F(LogPumpTest, ShowsAQuestion) {
  start({});
  open(1, kAsIs);
  out(0, "(Pdb) ");
  console.await("(Pdb) ");
  out(0, "c\n");
  drain();
  EXPECT_EQ(shown(), "(Pdb) c\n");
}

TEST_F(LogPumpTest, OurOwnLinesStandBetweenThoseOfTheWorkers) {
  start({});
  open(1, {"", Console::Prefixed});
  out(0, "half");
  pump->print("regroup: hello");
  console.await("hello\n");
  out(0, " and half\n");
  drain();
  EXPECT_EQ(shown(), "regroup: hello\n[default0]:half and half\n");
}

TEST_F(LogPumpTest, NoLineOfManyWorkersIsLostOrSplit) {
  constexpr int kWorkers = 8;
  constexpr int kLines = 20'000;
  start({});
  open(kWorkers, {path("%d.out"), Console::Prefixed}, {path("%d.err"), Console::Prefixed});
  std::vector<std::thread> workers;
  workers.reserve(kWorkers);
  for (int w = 0; w < kWorkers; ++w) {
    workers.emplace_back([&, w] {
      const std::string rest(w * 20, '.');
      for (int i = 0; i < kLines; ++i) out(w, std::to_string(i) + rest + "\n");
    });
  }
  for (auto& worker : workers) worker.join();
  EXPECT_EQ(drain(), std::vector<int>{});
  EXPECT_EQ(pump->counters().dropped_lines, 0u);

  std::istringstream lines(shown());
  std::map<std::string, int> next;
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const std::string prefix = line.substr(0, line.find(':') + 1);
    const int w = line[8] - '0';
    const std::string expected = std::to_string(next[prefix]++) + std::string(w * 20, '.');
    ASSERT_EQ(line, prefix + expected);
  }
  EXPECT_EQ(count, kWorkers * kLines);
  for (int w = 0; w < kWorkers; ++w) {
    const std::string file = contents(path(std::to_string(w) + ".out"));
    EXPECT_EQ(std::count(file.begin(), file.end(), '\n'), kLines);
    EXPECT_THAT(file, StartsWith("0" + std::string(w * 20, '.') + "\n1"));
  }
}

TEST_F(LogPumpTest, AVeryLongLineStaysOne) {
  start({});
  open(2, {path("%d.out"), Console::Prefixed});
  const std::string line(10'000'000, 'x');
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) out(1, "short\n");
  });
  out(0, line + "\n");
  other.join();
  drain();
  EXPECT_EQ(contents(path("0.out")), line + "\n");
  EXPECT_NE(shown().find("[default0]:" + line + "\n"), std::string::npos);
}

TEST_F(LogPumpTest, FiltersCopyLinesThatMatchAny) {
  start({.out_filters = {"apple", "a,b"}, .err_filters = {""}});
  open(2, {path("%d.out"), Console::Prefixed}, {path("%d.err"), Console::Prefixed});
  out(0, "apple pie\npear\nx a,b y\nap");
  err(1, "all\nof it");
  out(0, "ple");
  drain();
  EXPECT_EQ(contents(path("filtered_out")),
            "[default0]:apple pie\n[default0]:x a,b y\n[default0]:apple\n");
  EXPECT_EQ(contents(path("filtered_err")), "[default1]:all\n[default1]:of it\n");
}

TEST_F(LogPumpTest, FiltersLookOnlyAtWhatIsTeed) {
  start({.out_filters = {""}});
  open(1, kAsIs, {path("err"), Console::Prefixed});
  out(0, "plain\n");
  drain();
  EXPECT_EQ(contents(path("filtered_out")), "");
  EXPECT_FALSE(std::filesystem::exists(path("filtered_err")));
}

TEST_F(LogPumpTest, RotatesBetweenLines) {
  start({.max_bytes = 100, .keep = 2});
  open(1, {path("out"), Console::No});
  std::string all;
  for (int i = 0; i < 40; ++i) all += "line " + std::to_string(100 + i) + "\n";
  out(0, all);
  drain();
  const std::string newest = contents(path("out"));
  const std::string older = contents(path("out.1"));
  const std::string oldest = contents(path("out.2"));
  EXPECT_FALSE(std::filesystem::exists(path("out.3")));
  EXPECT_EQ(older.size(), 99u);
  EXPECT_EQ(oldest.size(), 99u);
  EXPECT_THAT(all, EndsWith(oldest + older + newest));
}

TEST_F(LogPumpTest, KeepsNothingOfARotatedFile) {
  start({.max_bytes = 100, .keep = 0});
  open(1, {path("out"), Console::Prefixed});
  for (int i = 0; i < 40; ++i) out(0, "line " + std::to_string(100 + i) + "\n");
  drain();
  EXPECT_FALSE(std::filesystem::exists(path("out.1")));
  const std::string left = contents(path("out"));
  EXPECT_LE(left.size(), 100u);
  EXPECT_THAT(left, EndsWith("line 139\n"));
  EXPECT_EQ(pump->counters().bytes, 40u * 9);
}

TEST_F(LogPumpTest, ReportsWhoKeepsItsStreamsOpen) {
  start({});
  open(3, {path("%d.out"), Console::Prefixed});
  out(1, "not yet over");
  streams[0].first.close(), streams[0].second.close();
  streams[2].first.close(), streams[2].second.close();
  EXPECT_EQ(drain_open(0s), std::vector<int>{1});
  EXPECT_EQ(contents(path("1.out")), "not yet over");
  console.await("[default1]:not yet over\n");
  out(1, "still here\n");
  EXPECT_EQ(drain(), std::vector<int>{});
  EXPECT_EQ(shown(), "[default1]:not yet over\n[default1]:still here\n");
}

TEST_F(LogPumpTest, TheNextStartTakesTheRestOfTheOneBefore) {
  start({});
  open(1, {path("first"), Console::Prefixed});
  out(0, "of the first");
  const auto left_over = std::move(streams);
  open(1, {path("second"), Console::Prefixed});
  out(0, "of the second\n");
  drain();
  EXPECT_EQ(contents(path("first")), "of the first");
  EXPECT_EQ(shown(), "[default0]:of the first\n[default0]:of the second\n");
}

TEST_F(LogPumpTest, WithoutWorkersThereIsNothingToWaitFor) {
  start({});
  EXPECT_EQ(drain(0s), std::vector<int>{});
  EXPECT_EQ(pump->tail(0).text, "");
  EXPECT_EQ(shown(), "");
}

TEST_F(LogPumpTest, OpensAllOrNothing) {
  start({});
  LogRoutes routes;
  routes.workers = {{{path("out"), Console::Prefixed}, kHidden, ""},
                    {{path("no/such/directory"), Console::Prefixed}, kHidden, ""}};
  const auto opened = pump->open(routes, {{0, 0}, {1, 1}});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("no/such/directory"));
  EXPECT_THAT(opened.error().message, HasSubstr("No such file"));
}

TEST_F(LogPumpTest, LeavesNoDescriptorBehind) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto before = count();
  for (int round = 0; round < 3; ++round) {
    start({.out_filters = {"x"}});
    open(2, {path("%d.out"), Console::Prefixed}, kAsIs);
    out(0, "x\n");
    drain();
    open(2, {path("%d.out"), Console::No}, kHidden);
    streams.clear();
    pump.reset();
    EXPECT_EQ(count(), before);
  }
}

}  // namespace
}  // namespace regroup::runtime
