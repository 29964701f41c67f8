#include "io/loop/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace regroup::io {
namespace {

Descriptor open_null() { return Descriptor(::open("/dev/null", O_WRONLY | O_CLOEXEC)); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(Descriptor, IsClosedWhenItGoes) {
  int fd = -1;
  {
    const Descriptor one = open_null();
    ASSERT_TRUE(one);
    fd = one.get();
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(Descriptor, LeavesErrnoAsItWas) {
  errno = ENOSPC;
  { const Descriptor closed_already(1 << 20); }
  EXPECT_EQ(errno, ENOSPC);
}

TEST(Descriptor, HasOneOwnerAtATime) {
  Descriptor one = open_null();
  const int fd = one.get();
  Descriptor other(std::move(one));
  EXPECT_EQ(other.get(), fd);
  Descriptor third = open_null();
  const int replaced = third.get();
  third = std::move(other);
  EXPECT_EQ(third.get(), fd);
  EXPECT_TRUE(is_open(fd));
  EXPECT_FALSE(is_open(replaced));
}

TEST(Descriptor, TellsWhetherClosingWentWell) {
  Descriptor one = open_null();
  EXPECT_TRUE(one.close());
  EXPECT_FALSE(one);
  EXPECT_TRUE(one.close());  // There is nothing left to lose.
  Descriptor wrong(1 << 20);
  EXPECT_FALSE(wrong.close());
}

}  // namespace
}  // namespace regroup::io
