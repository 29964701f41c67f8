#include "core/output/rotation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"

namespace regroup::core::output {
namespace {

using Files = std::vector<std::string>;

void append(Files& files, std::uint64_t limit, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string& file = files.back();
    const std::size_t unfinished = file.size() - (file.rfind('\n') + 1);
    const auto step = next_step({file.size(), unfinished}, limit, bytes);
    files.back() += bytes.substr(0, step.write);
    bytes.remove_prefix(step.write);
    if (step.rotate && !bytes.empty()) files.emplace_back();
  }
}

Files cut(std::uint64_t limit, const std::vector<std::string>& pieces) {
  Files files{""};
  for (const auto& piece : pieces) append(files, limit, piece);
  return files;
}

TEST(Rotation, CutsBetweenLines) {
  EXPECT_EQ(cut(10, {"one\ntwo\nthree\n"}), (Files{"one\ntwo\n", "three\n"}));
  EXPECT_EQ(cut(10, {"one\n", "two\n", "three\n"}), (Files{"one\ntwo\n", "three\n"}));
  EXPECT_EQ(cut(8, {"one\ntwo\n"}), Files{"one\ntwo\n"});
}

TEST(Rotation, ALineThatHasBegunStaysInItsFile) {
  EXPECT_EQ(cut(10, {"one\ntwo\nth", "ree\nfour\n"}), (Files{"one\ntwo\nthree\n", "four\n"}));
  EXPECT_EQ(cut(10, {"one\ntwo\nth", "r", "ee\n", "four\n"}),
            (Files{"one\ntwo\nthree\n", "four\n"}));
}

TEST(Rotation, SplitsALineThatFitsIntoNoFile) {
  EXPECT_EQ(cut(4, {"a\n", "0123456789\n", "b\n"}), (Files{"a\n", "0123", "4567", "89\n", "b\n"}));
  EXPECT_EQ(cut(4, {"01", "23", "45", "6\n"}), (Files{"0123", "456\n"}));
}

TEST(Rotation, LosesNothingAndSplitsNoShortLine) {
  SeededRandom random(11);
  for (int round = 0; round < 500; ++round) {
    const std::uint64_t limit = 1 + random.below(40);
    std::string all;
    Files files{""};
    for (int i = 0; i < 30; ++i) {
      std::string piece(1 + random.below(25), 'a');
      for (char& c : piece)
        if (random.one_in(6)) c = '\n';
      append(files, limit, piece);
      all += piece;
    }
    std::string together;
    for (const auto& file : files) {
      // A file ends inside a line only if that line is longer than the limit.
      const bool last = &file == &files.back();
      if (!last && file.back() != '\n') {
        const std::size_t begin = all.rfind('\n', together.size() + file.size() - 1) + 1;
        EXPECT_GT(all.find('\n', begin) - begin + 1, limit);
      }
      together += file;
      EXPECT_LT(file.size(), 2 * limit);
    }
    EXPECT_EQ(together, all);
  }
}

}  // namespace
}  // namespace regroup::core::output
