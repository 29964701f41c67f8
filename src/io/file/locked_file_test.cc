#include "io/file/locked_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "io/loop/clock.h"

namespace regroup::io {
namespace {

using testing::HasSubstr;

class LockedFileTest : public testing::Test {
 protected:
  std::string path = testing::TempDir() + "locked_file_" +
                     testing::UnitTest::GetInstance()->current_test_info()->name();
  ~LockedFileTest() override { std::filesystem::remove(path); }
};

TEST_F(LockedFileTest, AppendsAndReadsFromAnywhere) {
  auto file = LockedFile::open(path, Lock::Exclusive, deadline_after(10s));
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->append("hello "));
  EXPECT_TRUE(file->append("world"));
  ByteBuffer read;
  EXPECT_TRUE(file->read_from(6, read));
  EXPECT_EQ(read.view(), "world");
  EXPECT_TRUE(file->truncate(5));
  EXPECT_EQ(*file->size(), 5u);
}

TEST_F(LockedFileTest, KeepsOthersOutUntilItIsGone) {
  {
    auto holder = LockedFile::open(path, Lock::Exclusive, deadline_after(10s));
    auto late = LockedFile::open(path, Lock::Shared, now());
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().kind, ErrorKind::Timeout);
  }
  auto one = LockedFile::open(path, Lock::Shared, now());
  auto other = LockedFile::open(path, Lock::Shared, now());
  EXPECT_TRUE(one && other);
}

TEST_F(LockedFileTest, SaysWhatIsMissing) {
  const auto missing = LockedFile::open(path, Lock::Shared, now());
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("No such file"));
}

TEST_F(LockedFileTest, TakesBackWhatAFullDiskCutShort) {
  std::signal(SIGXFSZ, SIG_IGN);
  auto file = LockedFile::open(path, Lock::Exclusive, deadline_after(10s));
  ASSERT_TRUE(file->append("whole"));
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{8, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto cut = file->append("does not fit");
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(cut);
  EXPECT_EQ(*file->size(), 5u);
}

TEST_F(LockedFileTest, FollowsNoLinkWhenItReplacesAFile) {
  const std::string precious = path + ".precious";
  std::ofstream(precious) << "precious";
  ASSERT_EQ(::symlink(precious.c_str(), path.c_str()), 0);
  const std::string fresh = path + ".new." + std::to_string(::getpid());
  ASSERT_EQ(::symlink(precious.c_str(), fresh.c_str()), 0);
  EXPECT_TRUE(write_file(path, "port"));
  std::string contents;
  std::ifstream(precious) >> contents;
  EXPECT_EQ(contents, "precious");
  std::ifstream(path) >> contents;
  EXPECT_EQ(contents, "port");
  EXPECT_NE(::access(fresh.c_str(), F_OK), 0);
  ::unlink(precious.c_str());
}

TEST_F(LockedFileTest, ReplacesAFileInOneStep) {
  EXPECT_TRUE(write_file(path, "old"));
  EXPECT_TRUE(write_file(path, "new"));
  std::ifstream stream(path);
  std::string contents;
  stream >> contents;
  EXPECT_EQ(contents, "new");
  EXPECT_FALSE(write_file("/no/such/folder/file", "x"));
  EXPECT_TRUE(remove_file(path));
  EXPECT_FALSE(remove_file(path));
}

}  // namespace
}  // namespace regroup::io
