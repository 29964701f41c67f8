// The pump when the world fails: full disks, consoles that do not read or are gone, terminals.
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>

#include "io/file/pseudo_terminal.h"
#include "runtime/common/limits.h"
#include "runtime/output/log_pump_testing.h"

namespace regroup::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(LogPumpTest, AConsoleThatDoesNotReadStopsNobody) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  io::Descriptor unread(ends[0]);
  io::Descriptor stuck(ends[1]);
  start({.console_out = stuck.get(), .console_err = stuck.get()});
  open(1, {path("out"), Console::Prefixed});
  const std::string line = std::string(999, 'x') + "\n";
  std::string block;
  for (int i = 0; i < 1000; ++i) block += line;
  std::uint64_t written = 0;
  while (pump->counters().dropped_lines == 0) {
    ASSERT_LT(written, 10 * kConsoleBacklog);
    out(0, block);
    written += block.size();
  }
  drain();
  EXPECT_EQ(std::filesystem::file_size(path("out")), written);
  EXPECT_FALSE(pump->flush_console(0s));

  // It reads again: what waited comes, then a line that says what does not.
  stuck.close();
  ReadConsole reader(std::move(unread), io::Descriptor());
  reader.await(" lines were not shown, because the console did not read; the files have them\n");
  EXPECT_TRUE(pump->flush_console(60s));
  const auto counters = pump->counters();
  pump.reset();
  const std::string text = reader.text();
  EXPECT_EQ(static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n')),
            counters.lines + 1);
  EXPECT_EQ(counters.lines + counters.dropped_lines, written / line.size());
  EXPECT_THAT(text, HasSubstr("\nregroup: " + std::to_string(counters.dropped_lines) + " lines"));
}

TEST_F(LogPumpTest, AConsoleThatNeverReadsDoesNotKeepUs) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const io::Descriptor unread(ends[0]);
  const io::Descriptor stuck(ends[1]);
  start({.console_out = stuck.get(), .console_err = stuck.get()});
  open(1, {path("out"), Console::Prefixed});
  out(0, std::string(1'000'000, 'x') + "\n");
  drain();
  pump.reset();
  EXPECT_EQ(std::filesystem::file_size(path("out")), 1'000'001u);
}

TEST_F(LogPumpTest, AConsoleThatIsGoneIsNoHarm) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  io::Descriptor read(ends[0]);
  const io::Descriptor broken(ends[1]);
  start({.console_out = broken.get(), .console_err = broken.get()});
  open(1, {path("out"), Console::Prefixed});
  read.close();
  for (int i = 0; i < 100; ++i) {
    out(0, "line\n");
    EXPECT_TRUE(pump->flush_console(60s));
  }
  drain();
  EXPECT_EQ(contents(path("out")).size(), 500u);
  pump.reset();
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("Broken pipe")));
}

TEST_F(LogPumpTest, AClosedConsoleIsNone) {
  start({.console_out = 987, .console_err = 987});
  open(1, {path("out"), Console::Prefixed}, {"", Console::AsIs});
  out(0, "line\n");
  err(0, "words\n");
  pump->print("unheard");
  drain();
  EXPECT_EQ(contents(path("out")), "line\n");
  EXPECT_EQ(pump->tail(0).text, "words\n");
}

TEST_F(LogPumpTest, AFullDiskLosesBytesAndNothingElse) {
  start({});
  open(1, {"/dev/full", Console::Prefixed});
  const std::string line = std::string(99, 'x') + "\n";
  for (int i = 0; i < 10'000; ++i) out(0, line);
  drain();
  EXPECT_EQ(pump->counters().lost_bytes, 1'000'000u);
  EXPECT_EQ(shown().size(), 10'000 * (line.size() + 11));
  EXPECT_THAT(warnings,
              ElementsAre(testing::AllOf(HasSubstr("/dev/full"), HasSubstr("No space left"))));
}

TEST_F(LogPumpTest, MarksThePlaceWhereBytesWereLost) {
  start({});
  open(1, {path("out"), Console::Prefixed});
  out(0, "before\n");
  drain_open(0s);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tight{10, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &tight);
  out(0, "during\n");
  drain_open(0s);
  out(0, "still\n");
  drain_open(0s);
  ::setrlimit(RLIMIT_FSIZE, &before);
  out(0, "after\n");
  drain();
  EXPECT_EQ(contents(path("out")),
            "before\ndur\n[regroup: 10 bytes were lost here: File too large]\nafter\n");
  EXPECT_EQ(pump->counters().lost_bytes, 10u);
  pump.reset();
  EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(LogPumpTest, TheLastLineOfAWorkerThatExitsAtOnceIsThere) {
  start({});
  for (int round = 0; round < 100; ++round) {
    open(1, {path("out"), Console::Prefixed});
    const int fd = streams[0].first.get();
    const pid_t worker = ::fork();
    if (worker == 0) {
      [[maybe_unused]] const auto put = ::write(fd, "last words", 10);
      ::_exit(7);
    }
    streams.clear();
    int status = 0;
    ASSERT_EQ(::waitpid(worker, &status, 0), worker);
    ASSERT_EQ(drain(), std::vector<int>{});
    ASSERT_EQ(contents(path("out")), "last words");
  }
  const std::string text = shown();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 100);
}

class LogPumpTerminalTest : public LogPumpTest {
 protected:
  LogPumpTerminalTest() {
    auto made = io::make_pseudo_terminal(-1);
    if (!made) return;
    const winsize window{.ws_row = 30, .ws_col = 77, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(made->slave.get(), TIOCSWINSZ, &window);
    ::fcntl(made->master.get(), F_SETFL, 0);  // The reader waits.
    terminal = std::make_unique<ReadConsole>(std::move(made->master), std::move(made->slave));
  }
  void SetUp() override {
    if (!terminal) GTEST_SKIP() << "no pseudo-terminals here";
    start({.console_out = terminal->fd(), .console_err = terminal->fd()});
  }
  std::string screen() {
    pump.reset();
    return terminal->text();
  }
  std::unique_ptr<ReadConsole> terminal;
};

TEST_F(LogPumpTerminalTest, TheWorkerSeesATerminalOfTheSameSize) {
  open(1, {"", Console::AsIs}, {"", Console::AsIs});
  EXPECT_TRUE(::isatty(streams[0].first.get()));
  EXPECT_TRUE(::isatty(streams[0].second.get()));
  winsize window{};
  ::ioctl(streams[0].first.get(), TIOCGWINSZ, &window);
  EXPECT_EQ(window.ws_col, 77);
  out(0, "plain\n");
  terminal->await("plain\n");
  err(0, "words\n");
  EXPECT_EQ(drain(), std::vector<int>{});
  EXPECT_EQ(pump->tail(0).text, "plain\nwords\n");
  EXPECT_EQ(screen(), "plain\nwords\n");
}

TEST_F(LogPumpTerminalTest, MuchOutputComesThroughWhole) {
  open(1, {"", Console::AsIs});
  std::string all;
  for (int i = 0; i < 20'000; ++i) all += "line " + std::to_string(i) + "\n";
  out(0, all);
  EXPECT_EQ(drain(), std::vector<int>{});
  EXPECT_EQ(screen(), all);
}

TEST_F(LogPumpTerminalTest, WhatIsTeedGoesThroughAPipe) {
  open(1, {path("out"), Console::Prefixed});
  EXPECT_FALSE(::isatty(streams[0].first.get()));
  out(0, "line\n");
  drain();
  EXPECT_EQ(screen(), "[default0]:line\n");
}

TEST_F(LogPumpTerminalTest, BarsLiveAndGiveWay) {
  open(2, {path("%d.out"), Console::Prefixed});
  out(0, "\r10%");
  terminal->await("\r[default0]:10%");
  out(1, "line\n");
  terminal->await("line\n");
  out(0, "\r20%");
  terminal->await("20%");
  drain();
  EXPECT_EQ(screen(), "\r[default0]:10%\r\x1b[K[default1]:line\n\r[default0]:20%\n");
  EXPECT_EQ(contents(path("0.out")), "\r10%\r20%");
}

TEST_F(LogPumpTerminalTest, AnUnfinishedLineIsShownAndLeft) {
  open(2, {path("%d.out"), Console::Prefixed});
  out(0, "loading ... ");
  terminal->await("[default0]:loading ... ");
  pump->print("regroup: note");
  terminal->await("note\n");
  out(0, "done\n");
  drain();
  EXPECT_EQ(screen(), "[default0]:loading ... \nregroup: note\n[default0]:done\n");
}

core::output::LiveLine waiting(const std::string& text) {
  // Begun long ago, so that it is said at once.
  return {.text = text, .since = io::now() + -10s, .until = {}};
}

TEST_F(LogPumpTerminalTest, ALiveLineGivesWayAndComesAgainBelow) {
  open(1, {"", Console::AsIs});
  pump->show_live(waiting("waiting for b"));
  terminal->await("\rwaiting for b, 1");
  out(0, "line\n");
  terminal->await("\x1b[K\r\x1b[Kline\n\rwaiting for b, 1");
  pump->print("regroup: note");
  terminal->await("\x1b[K\r\x1b[Kregroup: note\n\rwaiting for b, ");
  pump->hide_live();
  pump->print("regroup: end");
  drain();
  EXPECT_TRUE(screen().ends_with("\x1b[K\r\x1b[Kregroup: end\n"));
}

TEST_F(LogPumpTerminalTest, ALiveLineGoesOnCounting) {
  pump->show_live(waiting("a"));
  terminal->await("\ra, ", 3);  // The same seconds are not drawn twice.
  pump->show_live(waiting("b"));
  terminal->await("\rb, ");
  pump->hide_live();
  EXPECT_TRUE(screen().ends_with(" s\x1b[K\r\x1b[K"));
}

TEST_F(LogPumpTerminalTest, ALiveLineIsNotDrawnIntoTheLineOfAWorker) {
  open(1, {"", Console::AsIs});
  out(0, "name: ");
  terminal->await("name: ");
  pump->show_live(waiting("waiting"));
  out(0, "x\n");
  terminal->await("\rwaiting, ");
  pump->hide_live();
  drain();
  EXPECT_TRUE(screen().starts_with("name: x\n\rwaiting, "));
}

TEST_F(LogPumpTerminalTest, ALiveLineIsCutToTheWindow) {
  pump->show_live(waiting(std::string(200, 'x')));
  terminal->await("\r" + std::string(76, 'x') + "\x1b[K");
  screen();
}

TEST_F(LogPumpTest, WithoutATerminalThereIsNoLiveLine) {
  start({});
  pump->show_live(waiting("waiting"));
  pump->print("regroup: note");
  console.await("note\n");
  pump->hide_live();
  EXPECT_EQ(shown(), "regroup: note\n");
}

}  // namespace
}  // namespace regroup::runtime
