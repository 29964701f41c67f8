#include "regroup/error_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace regroup {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class ErrorFileTest : public testing::Test {
 protected:
  ErrorFileTest() {
    std::filesystem::create_directory(folder_);
    ::setenv("TORCHELASTIC_ERROR_FILE", path_.c_str(), 1);
  }
  ~ErrorFileTest() override {
    ::unsetenv("TORCHELASTIC_ERROR_FILE");
    std::filesystem::remove_all(folder_);
  }

  void put(const std::string& text) const { std::ofstream(path_) << text; }
  ErrorFile get() const { return read_error_file(path_).value().value(); }
  std::size_t files() const {
    const std::filesystem::directory_iterator all(folder_);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  std::string folder_ = testing::TempDir() + "error_file_test_" + std::to_string(::getpid());
  std::string path_ = folder_ + "/error.json";
};

TEST_F(ErrorFileTest, AbsentAndEmptyFilesAreNoError) {
  EXPECT_EQ(read_error_file(path_).value(), std::nullopt);
  EXPECT_EQ(read_error_file(path_ + "/below").value(), std::nullopt);
  EXPECT_EQ(read_error_file("/dev/null").value(), std::nullopt);
  put("");
  EXPECT_EQ(read_error_file(path_).value(), std::nullopt);
  EXPECT_EQ(read_error_file(folder_).error().kind, ErrorKind::Io);
}

TEST_F(ErrorFileTest, ABrokenFileSaysWhy) {
  put("{\"message\": ");
  const auto file = read_error_file(path_);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::Corrupt);
  EXPECT_THAT(file.error().message, StartsWith("the error file " + path_ + " cannot be used: "));
  put(std::string(2 << 20, ' '));
  EXPECT_THAT(read_error_file(path_).error().message, HasSubstr("longer than"));
}

TEST_F(ErrorFileTest, IsReadAsItWasWritten) {
  const std::string path = folder_ + "/attempt_0/3/error.json";
  ASSERT_TRUE(write_error_file(path, {.message = "E: x", .timestamp = 5, .error_code = -9}));
  const ErrorFile file = read_error_file(path).value().value();
  EXPECT_EQ(file.message, "E: x");
  EXPECT_EQ(file.timestamp, 5);
  EXPECT_EQ(file.error_code, -9);
  EXPECT_TRUE(file.structured);
  EXPECT_THAT(file.raw, StartsWith("{\"message\": {\"message\": \"E: x\""));
}

TEST_F(ErrorFileTest, IsReplacedAsAWholeAndReadableByAll) {
  put("old");
  ASSERT_TRUE(write_error_file(path_, {.message = "new"}));
  EXPECT_EQ(get().message, "new");
  EXPECT_GT(get().timestamp, 1'700'000'000);
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0644u);
  EXPECT_EQ(files(), 1u);
}

TEST_F(ErrorFileTest, HonoursTheUmask) {
  const mode_t before = ::umask(0077);
  ASSERT_TRUE(write_error_file(path_, {.message = "m"}));
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
}

TEST_F(ErrorFileTest, WhatCannotBeReplacedIsWrittenInPlace) {
  std::filesystem::create_symlink("target", path_);
  std::ofstream(folder_ + "/target") << "something longer than what will be there afterwards, old";
  ASSERT_TRUE(write_error_file(path_, {.message = "m"}));
  EXPECT_EQ(get().message, "m");
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(files(), 2u);
  const auto written = write_error_file(folder_, {.message = "m"});
  EXPECT_EQ(written.error().kind, ErrorKind::Io);
}

TEST_F(ErrorFileTest, RecordLeavesAGoodBodyAlone) {
  EXPECT_EQ(record([] { return 7; }), 7);
  EXPECT_EQ(files(), 0u);
}

TEST_F(ErrorFileTest, RecordTellsWhatWasThrown) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(record([]() -> int { throw std::out_of_range("layer 3"); }), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "std::out_of_range: layer 3\n");
  EXPECT_EQ(get().message, "std::out_of_range: layer 3");
  EXPECT_EQ(record([]() -> int { throw 3; }), 1);
  EXPECT_EQ(get().message, "int: it is no std::exception");
  EXPECT_EQ(record([]() -> int { throw "plain"; }), 1);
  EXPECT_EQ(get().message, "const char*: plain");
}

TEST_F(ErrorFileTest, RecordTellsTheCauses) {
  EXPECT_EQ(record([]() -> int {
              try {
                throw std::out_of_range("layer 3");
              } catch (...) {
                std::throw_with_nested(std::runtime_error("cannot train"));
              }
            }),
            1);
  EXPECT_EQ(get().message, "std::runtime_error: cannot train");
  EXPECT_EQ(get().call_stack,
            "std::runtime_error: cannot train\ncaused by std::out_of_range: layer 3\n");
}

TEST_F(ErrorFileTest, RecordKeepsWhatAProcessBelowHasWritten) {
  const auto fails_after = [&](const std::string& text) {
    return record([&]() -> int {
      if (!text.empty()) put(text);
      throw std::runtime_error("my child failed");
    });
  };
  EXPECT_EQ(fails_after(R"({"message": "CUDA error"})"), 1);
  EXPECT_EQ(get().message, "CUDA error");
  EXPECT_EQ(fails_after(""), 1);  // By now it is of an earlier call.
  EXPECT_EQ(get().message, "std::runtime_error: my child failed");
  EXPECT_EQ(fails_after("rubbish"), 1);
  EXPECT_EQ(get().message, "std::runtime_error: my child failed");
}

TEST_F(ErrorFileTest, RecordWorksWithoutAFile) {
  ::setenv("TORCHELASTIC_ERROR_FILE", "/proc/none/error.json", 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(record([]() -> int { throw std::runtime_error("x"); }), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("/proc/none/error.json"));
  ::unsetenv("TORCHELASTIC_ERROR_FILE");
  EXPECT_EQ(record([]() -> int { throw std::runtime_error("x"); }), 1);
}

}  // namespace
}  // namespace regroup
