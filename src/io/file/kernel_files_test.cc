#include "io/file/kernel_files.h"

#include <gtest/gtest.h>

namespace regroup::io {
namespace {

TEST(NumberOf, TakesTheWholeKey) {
  const char* events = "low 0\nhigh 0\nmax 12\noom 2\noom_kill 3\noom_group_kill 1\n";
  EXPECT_EQ(number_of(events, "oom_kill"), 3u);
  EXPECT_EQ(number_of(events, "oom"), 2u);
  EXPECT_EQ(number_of(events, "kill"), std::nullopt);
  EXPECT_EQ(number_of("oom_kill_disable 0\nunder_oom 0\noom_kill 5", "oom_kill"), 5u);
  EXPECT_EQ(number_of("oom_kill_disable 0\nunder_oom 0\n", "oom_kill"), std::nullopt);
  EXPECT_EQ(number_of("oom_kill many\n", "oom_kill"), std::nullopt);
  EXPECT_EQ(number_of("", "oom_kill"), std::nullopt);
}

TEST(ParseNumber, TakesTheOnlyNumberOfAFile) {
  EXPECT_EQ(parse_number("4096\n"), 4096u);
  EXPECT_EQ(parse_number("max\n"), std::nullopt);
  EXPECT_EQ(parse_number("1 2\n"), std::nullopt);
}

TEST(HasWord, TakesTheWholeWord) {
  EXPECT_TRUE(has_word("cpuset cpu io memory pids\n", "memory"));
  EXPECT_TRUE(has_word("memory", "memory"));
  EXPECT_FALSE(has_word("hugetlb memory2\n", "memory"));
  EXPECT_FALSE(has_word("\n", "memory"));
}

}  // namespace
}  // namespace regroup::io
