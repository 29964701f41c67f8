#include "core/output/live_line.h"

#include <gtest/gtest.h>

namespace regroup::core::output {
namespace {

constexpr Instant kBegin{100s};
LiveLine waiting() {
  return {.text = "waiting for nodes: 1 of 2 here", .since = kBegin, .until = kBegin + 583s};
}

TEST(LiveLine, CountsTheSeconds) {
  EXPECT_EQ(live_text(waiting(), kBegin, 80), "waiting for nodes: 1 of 2 here, 0 s; 583 s left");
  EXPECT_EQ(live_text(waiting(), kBegin + 12s, 80),
            "waiting for nodes: 1 of 2 here, 12 s; 571 s left");
  EXPECT_EQ(live_text(waiting(), kBegin + 1000s, 80),
            "waiting for nodes: 1 of 2 here, 16m40s; 0 s left");
}

TEST(LiveLine, AWaitWithoutAnEndHasNothingLeft) {
  const LiveLine line{.text = "spare", .since = kBegin, .until = {}};
  EXPECT_EQ(live_text(line, kBegin + 7s, 80), "spare, 7 s");
}

TEST(LiveLine, IsCutToTheWidthInCharacters) {
  EXPECT_EQ(live_text(waiting(), kBegin, 11), "waiting for");
  EXPECT_EQ(live_text({.text = "äöü€", .since = kBegin, .until = {}}, kBegin, 3), "äöü");
  EXPECT_EQ(live_text(waiting(), kBegin, 0), "");
}

TEST(LiveLine, HasNoCommandsForTheTerminal) {
  EXPECT_EQ(live_text({.text = "a\x1b[2Jb\r\nc", .since = kBegin, .until = {}}, kBegin, 80),
            "a[2Jbc, 0 s");
}

TEST(LiveLine, IsQuietAtFirst) {
  EXPECT_EQ(next_drawing(waiting(), {}, kBegin), kBegin + kQuietAtFirst);
  EXPECT_EQ(next_drawing(waiting(), {}, kBegin + 3s), kBegin + 3s);
}

TEST(LiveLine, IsDrawnAgainAsEachSecondPasses) {
  EXPECT_EQ(next_drawing(waiting(), kBegin + 500ms, kBegin + 500ms), kBegin + 1s);
  EXPECT_EQ(next_drawing(waiting(), kBegin + 1s, kBegin + 1s), kBegin + 2s);
  // Never at once, even if a second passes just after it was drawn.
  EXPECT_EQ(next_drawing(waiting(), kBegin + 1999ms, kBegin + 2s), kBegin + 1999ms + kDrawAgain);
}

}  // namespace
}  // namespace regroup::core::output
