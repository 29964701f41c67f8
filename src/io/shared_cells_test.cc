#include "io/shared_cells.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace regroup::io {
namespace {

class SharedCellsTest : public testing::Test {
 public:
  SharedCellsTest() {
    std::string name = (std::filesystem::temp_directory_path() / "cells_testXXXXXX").string();
    folder = ::mkdtemp(name.data());
    path = (folder / "cells").string();
  }
  ~SharedCellsTest() override { std::filesystem::remove_all(folder); }

 protected:
  std::filesystem::path folder;
  std::string path;
};

TEST_F(SharedCellsTest, WhatOneStoresTheOtherReads) {
  const auto ours = SharedCells::create(path, 3);
  ASSERT_TRUE(ours) << ours.error().message;
  EXPECT_EQ((**ours)[2], 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto theirs = SharedCells::open(path, 3);
    if (theirs) (**theirs)[2] = 17;
    ::_exit(theirs ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ((**ours)[2], 17);
}

TEST_F(SharedCellsTest, IsForOurUserAloneAndGoneWithItsOwner) {
  {
    const auto ours = SharedCells::create(path, 3);
    ASSERT_TRUE(ours);
    { ASSERT_TRUE(SharedCells::open(path, 3)); }
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(SharedCellsTest, ANewOneIsSharedWithNobodyOfBefore) {
  const auto before = SharedCells::create(path, 3);
  ASSERT_TRUE(before);
  const auto after = SharedCells::create(path, 3);
  ASSERT_TRUE(after);
  (**before)[0] = 1;
  EXPECT_EQ((**after)[0], 0);
}

TEST_F(SharedCellsTest, RefusesAFileThatIsTooShort) {
  EXPECT_FALSE(SharedCells::open(path, 3));
  std::ofstream(path) << "short";
  EXPECT_FALSE(SharedCells::open(path, 3));
}

}  // namespace
}  // namespace regroup::io
