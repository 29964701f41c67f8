#include "runtime/evidence/hang_look.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace regroup::runtime {
namespace {

io::ProcessInfo process(pid_t pid, pid_t parent, const char* name) {
  return {.pid = pid, .parent = parent, .state = 'S', .name = name};
}

TEST(HangLook, LooksBehindShells) {
  const std::vector<io::ProcessInfo> all = {process(1, 0, "init"), process(10, 1, "bash"),
                                            process(11, 10, "sh"), process(12, 11, "python3"),
                                            process(13, 12, "python3")};
  EXPECT_EQ(behind_shells(all, 10), 12);
  EXPECT_EQ(behind_shells(all, 12), 12) << "what a program starts is not the program";
  EXPECT_EQ(behind_shells(all, 99), 99);
}

TEST(HangLook, AShellWithTwoChildrenIsItself) {
  EXPECT_EQ(behind_shells({process(10, 1, "bash"), process(11, 10, "a"), process(12, 10, "b")}, 10),
            10);
}

TEST(HangLook, SeesOurselvesAndNobodyWhoHasEnded) {
  const auto samples = look_at_workers({{.pid = ::getpid()}, {.pid = 0}});
  ASSERT_EQ(samples.size(), 2U);
  ASSERT_TRUE(samples[0]);
  EXPECT_FALSE(samples[1]);
}

}  // namespace
}  // namespace regroup::runtime
