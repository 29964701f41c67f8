#include "base/text.h"

#include <gtest/gtest.h>

namespace regroup {
namespace {

TEST(Printable, LeavesOrdinaryTextAlone) { EXPECT_EQ(printable("run/1 a"), "'run/1 a'"); }

TEST(Printable, LetsNothingThroughThatATerminalOrALogWouldActOn) {
  EXPECT_EQ(printable("a\n\x1b[31m'"), "'a\\x0a\\x1b[31m\\x27'");
}

TEST(Printable, CutsWhatIsTooLong) {
  EXPECT_EQ(printable(std::string(8192, 'k')), "'" + std::string(120, 'k') + "'… (8192 bytes)");
}

TEST(InWords, AsPeopleSayIt) {
  EXPECT_EQ(in_words(0s), "0 s");
  EXPECT_EQ(in_words(100ms), "1 s");
  EXPECT_EQ(in_words(59s), "59 s");
  EXPECT_EQ(in_words(605s), "10m05s");
  EXPECT_EQ(in_words(7500s), "2h05m");
}

TEST(SizeInWords, HasOneDigitBehindThePoint) {
  EXPECT_EQ(size_in_words(0), "0 B");
  EXPECT_EQ(size_in_words(1023), "1023 B");
  EXPECT_EQ(size_in_words(1024), "1.0 KiB");
  EXPECT_EQ(size_in_words(64ull << 20), "64.0 MiB");
  EXPECT_EQ(size_in_words((64ull << 20) - 1), "64.0 MiB");
  EXPECT_EQ(size_in_words(1288490189), "1.2 GiB");
  EXPECT_EQ(size_in_words(1536ull << 30), "1.5 TiB");
}

TEST(SizeInWords, RoundsIntoTheNextUnit) {
  EXPECT_EQ(size_in_words((1ull << 20) - 1), "1.0 MiB");
  EXPECT_EQ(size_in_words((1ull << 30) - 1), "1.0 GiB");
}

TEST(SizeInWords, TakesTheLargestNumber) { EXPECT_EQ(size_in_words(~0ull), "16777216.0 TiB"); }

TEST(InRanges, PutsNeighboursTogether) {
  EXPECT_EQ(in_ranges({}), "");
  EXPECT_EQ(in_ranges({7}), "7");
  EXPECT_EQ(in_ranges({0, 1, 2, 5, 8, 9}), "0-2, 5, 8, 9");
}

TEST(CountOf, AddsAnSToMoreOrLessThanOne) {
  EXPECT_EQ(count_of(1, "node"), "1 node");
  EXPECT_EQ(count_of(0, "node"), "0 nodes");
  EXPECT_EQ(count_of(std::size_t{3}, "worker"), "3 workers");
}

TEST(RanksInWords, PutsThemInOrder) {
  EXPECT_EQ(ranks_in_words({3}), "rank 3");
  EXPECT_EQ(ranks_in_words({5, 1, 0, 2}), "ranks 0-2, 5");
}

}  // namespace
}  // namespace regroup
