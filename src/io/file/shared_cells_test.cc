#include "io/file/shared_cells.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace regroup::io {
namespace {

TEST(SharedCells, WhatOneStoresTheOtherReads) {
  const auto ours = SharedCells::create(3);
  ASSERT_TRUE(ours) << ours.error().message;
  EXPECT_EQ((**ours)[2], 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto theirs = SharedCells::open((*ours)->path(), 3);
    if (theirs) (**theirs)[2] = 17;
    ::_exit(theirs ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ((**ours)[2], 17);
}

TEST(SharedCells, AreForOurUserAloneAndGoneWithTheirOwner) {
  std::string path;
  {
    const auto ours = SharedCells::create(3);
    ASSERT_TRUE(ours);
    path = (*ours)->path();
    { ASSERT_TRUE(SharedCells::open(path, 3)); }
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  }
  EXPECT_FALSE(SharedCells::open(path, 3));
}

TEST(SharedCells, NobodyMakesThemShorter) {
  const auto ours = SharedCells::create(3);
  ASSERT_TRUE(ours);
  (**ours)[2] = 17;
  EXPECT_NE(::truncate((*ours)->path().c_str(), 0), 0);
  EXPECT_LT(::open((*ours)->path().c_str(), O_RDWR | O_TRUNC | O_CLOEXEC), 0);
  EXPECT_EQ((**ours)[2], 17);
  EXPECT_FALSE(SharedCells::open((*ours)->path(), 4));
}

TEST(SharedCells, ANewOneIsSharedWithNobodyOfBefore) {
  const auto before = SharedCells::create(3);
  ASSERT_TRUE(before);
  const auto after = SharedCells::create(3);
  ASSERT_TRUE(after);
  (**before)[0] = 1;
  EXPECT_EQ((**after)[0], 0);
}

TEST(SharedCells, AFileThatIsSomethingElseIsLeftAlone) {
  std::string folder = (std::filesystem::temp_directory_path() / "cells_testXXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/file";
  EXPECT_FALSE(SharedCells::open(path, 3));
  std::ofstream(path) << std::string(100, 'x');
  EXPECT_FALSE(SharedCells::open(path, 3));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace regroup::io
