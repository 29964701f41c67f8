#include "core/output/tail.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "core/output/limits.h"

namespace regroup::core::output {
namespace {

TEST(Tail, OfLittleIsAllOfIt) {
  Tail tail;
  EXPECT_EQ(tail.text(), "");
  tail.add("half a li");
  tail.add("ne\nand");
  EXPECT_EQ(tail.text(), "half a line\nand");
}

TEST(Tail, StartsWithALine) {
  Tail tail;
  tail.add(std::string(kTailBytes, 'x') + "\nlast words\n");
  EXPECT_EQ(tail.text(), "last words\n");
}

TEST(Tail, OfALineThatFillsItIsTheEndOfThat) {
  Tail tail;
  tail.add(std::string(3 * kTailBytes, 'x') + "\n");
  EXPECT_EQ(tail.text(), std::string(kTailBytes - 1, 'x') + "\n");
}

TEST(Tail, ALineThatJustFitsIsWhole) {
  Tail tail;
  const std::string line = std::string(kTailBytes - 1, 'x') + "\n";
  tail.add("before\n");
  tail.add(line);
  EXPECT_EQ(tail.text(), line);
}

TEST(Tail, ExactlyFullIsAllOfIt) {
  Tail tail;
  const std::string bytes = "a\n" + std::string(kTailBytes - 2, 'x');
  tail.add(bytes);
  EXPECT_EQ(tail.text(), bytes);
}

TEST(Tail, IsTheSameHoweverTheBytesCame) {
  SeededRandom random(3);
  std::string bytes;
  Tail tail;
  while (bytes.size() < 5 * kTailBytes) {
    std::string piece(random.below(30'000), 'a');
    for (char& c : piece)
      if (random.one_in(50)) c = '\n';
    tail.add(piece);
    bytes += piece;
    const bool whole = bytes.size() <= kTailBytes;
    const std::size_t kept = std::min(bytes.size(), kTailBytes + 1);
    ASSERT_EQ(tail.text(), from_line_start(bytes.substr(bytes.size() - kept), whole));
  }
}

}  // namespace
}  // namespace regroup::core::output
