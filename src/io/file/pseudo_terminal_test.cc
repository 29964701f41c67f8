#include "io/file/pseudo_terminal.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <string>

namespace regroup::io {
namespace {

TEST(PseudoTerminal, PassesBytesUnchangedAndThenEnds) {
  auto made = make_pseudo_terminal(-1);
  if (!made) GTEST_SKIP() << made.error().message;
  EXPECT_EQ(kind_of(made->slave.get()), FdKind::Terminal);
  const std::string bytes("a\r\nb\n\0\xff\x04", 8);
  write_all(made->slave.get(), bytes);
  made->slave.close();
  std::string read;
  Got got;
  // The kernel may still be carrying them over; the end comes only behind them.
  while (!got.end) {
    std::array<char, 64> room{};
    got = read_available(made->master.get(), room);
    read.append(room.data(), got.bytes);
  }
  EXPECT_EQ(read, bytes);
}

TEST(PseudoTerminal, HasTheSizeOfTheOther) {
  auto first = make_pseudo_terminal(-1);
  if (!first) GTEST_SKIP() << first.error().message;
  const winsize wanted{.ws_row = 11, .ws_col = 123, .ws_xpixel = 0, .ws_ypixel = 0};
  ::ioctl(first->slave.get(), TIOCSWINSZ, &wanted);
  auto second = make_pseudo_terminal(first->slave.get());
  ASSERT_TRUE(second);
  winsize window{};
  ::ioctl(second->slave.get(), TIOCGWINSZ, &window);
  EXPECT_EQ(window.ws_row, 11);
  EXPECT_EQ(window.ws_col, 123);
  EXPECT_EQ(window_columns(second->slave.get()), 123);
}

}  // namespace
}  // namespace regroup::io
