#include "io/file/log_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace regroup::io {
namespace {

namespace fs = std::filesystem;

class LogFileTest : public testing::Test {
 protected:
  LogFileTest() {
    std::string made = testing::TempDir() + "log_file_XXXXXX";
    directory = ::mkdtemp(made.data());
    path = directory + "/out.log";
  }
  ~LogFileTest() override { fs::remove_all(directory); }

  std::string contents(const std::string& suffix = "") const {
    std::ostringstream text;
    text << std::ifstream(path + suffix).rdbuf();
    return text.str();
  }

  std::string directory;
  std::string path;
};

TEST_F(LogFileTest, StartsEmpty) {
  std::ofstream(path) << "old";
  auto file = LogFile::open(path);
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->is_regular());
  EXPECT_EQ(contents(), "");
  file->write("new");
  EXPECT_EQ(contents(), "new");
}

TEST_F(LogFileTest, PutsAsideAsManyAsAreKept) {
  auto file = LogFile::open(path);
  for (const char* text : {"one", "two", "three", "four"}) {
    file->write(text);
    EXPECT_TRUE(file->rotate(2));
  }
  EXPECT_EQ(contents(), "");
  EXPECT_EQ(contents(".1"), "four");
  EXPECT_EQ(contents(".2"), "three");
  EXPECT_FALSE(fs::exists(path + ".3"));
}

TEST_F(LogFileTest, KeepsNothingIfNothingIsKept) {
  auto file = LogFile::open(path);
  file->write("one");
  EXPECT_TRUE(file->rotate(0));
  file->write("two");
  EXPECT_EQ(contents(), "two");
  EXPECT_FALSE(fs::exists(path + ".1"));
}

TEST_F(LogFileTest, GoesOnAfterItsDirectoryIsGone) {
  auto file = LogFile::open(path);
  fs::remove_all(directory);
  EXPECT_FALSE(file->rotate(2));
  EXPECT_EQ(file->write("x").error, 0);
}

TEST_F(LogFileTest, SaysWhichFileCannotBe) {
  const auto file = LogFile::open(directory + "/no/file");
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, testing::HasSubstr(directory + "/no/file"));
}

TEST_F(LogFileTest, TheEndIsReadFromBehind) {
  EXPECT_EQ(read_end(path, 4), "");
  std::ofstream(path) << "0123456789";
  EXPECT_EQ(read_end(path, 4), "6789");
  EXPECT_EQ(read_end(path, 100), "0123456789");
  EXPECT_EQ(read_end(directory, 4), "");
  EXPECT_EQ(read_end("/dev/zero", 4), "");
}

}  // namespace
}  // namespace regroup::io
