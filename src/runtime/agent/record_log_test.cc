#include "runtime/agent/record_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/common/limits.h"

namespace regroup::runtime {
namespace {

using testing::HasSubstr;

class RecordLogTest : public testing::Test {
 public:
  RecordLogTest() {
    std::string folder = testing::TempDir() + "record_log_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
  }
  ~RecordLogTest() override { std::filesystem::remove_all(folder_); }

 protected:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string content(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  // What is in a pipe right now.
  static std::string drain(int reader) {
    std::string text;
    char bytes[4096];
    for (ssize_t got = 0; (got = ::read(reader, bytes, sizeof bytes)) > 0;)
      text.append(bytes, static_cast<std::size_t>(got));
    return text;
  }

  std::string folder_;
};

TEST_F(RecordLogTest, AppendsToWhatIsThere) {
  std::ofstream(path("log")) << "before\n";
  {
    auto log = RecordLog::open(path("log"));
    ASSERT_TRUE(log);
    EXPECT_FALSE(log->append("one"));
    EXPECT_FALSE(log->append("two"));
    EXPECT_EQ(content(path("log")), "before\none\ntwo\n");  // At once.
    EXPECT_FALSE(log->close());
  }
  auto again = RecordLog::open(path("log"));
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->append("three"));
  EXPECT_EQ(content(path("log")), "before\none\ntwo\nthree\n");
}

TEST_F(RecordLogTest, SaysWhyAFileCannotBeOpened) {
  EXPECT_THAT(RecordLog::open(path("no/log")).error().message,
              testing::AllOf(HasSubstr("no/log"), HasSubstr("No such file or directory"),
                             HasSubstr("Make its directory first")));
  EXPECT_THAT(RecordLog::open(folder_).error().message, HasSubstr("Is a directory"));
}

TEST_F(RecordLogTest, SaysOnceThatADiskIsFull) {
  auto log = RecordLog::open("/dev/full");
  if (!log) GTEST_SKIP() << "no /dev/full here; to run it: a system that has one";
  const auto trouble = log->append("one");
  ASSERT_TRUE(trouble);
  EXPECT_THAT(*trouble, HasSubstr("No space left on device"));
  EXPECT_FALSE(log->append("two"));
  EXPECT_THAT(log->close().value_or(""), HasSubstr("2 lines could not be written"));
  EXPECT_EQ(log->dropped(), 2u);
}

TEST_F(RecordLogTest, APipeThatNobodyReadsHoldsNothingUp) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  auto log = RecordLog::open(path("pipe"));
  ASSERT_TRUE(log);
  const std::string line(1000, 'x');
  std::string trouble;
  int told = 0;
  for (std::size_t i = 0; i < 3 * kRecordBacklog / line.size(); ++i)
    if (auto why = log->append(line)) {
      trouble = *why;
      ++told;
    }
  EXPECT_EQ(told, 1);
  EXPECT_THAT(trouble, HasSubstr("is not read"));
  EXPECT_GT(log->dropped(), 1000u);
  EXPECT_THAT(log->close().value_or(""),
              testing::AllOf(HasSubstr("could not be written"), HasSubstr("nobody has read")));
}

TEST_F(RecordLogTest, WhatAPipeTookAndNobodyReadsIsTold) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  auto log = RecordLog::open(path("pipe"));
  ASSERT_TRUE(log);
  EXPECT_FALSE(log->append("123456789"));
  EXPECT_FALSE(log->append("123456789"));
  EXPECT_THAT(log->close().value_or(""), HasSubstr("nobody has read the last 20 B in "));
  EXPECT_EQ(log->dropped(), 0u);
}

TEST_F(RecordLogTest, WhatAPipeHoldsForItsReaderIsNotLost) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  auto log = RecordLog::open(path("pipe"));
  ASSERT_TRUE(log);
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  EXPECT_FALSE(log->append("one"));
  EXPECT_FALSE(log->close());
  EXPECT_EQ(drain(reader), "one\n");
  ::close(reader);
}

TEST_F(RecordLogTest, AnInheritedPipeIsSeenToBreak) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  auto log = RecordLog::open("/dev/fd/" + std::to_string(ends[1]));
  ASSERT_TRUE(log) << log.error().message;
  EXPECT_FALSE(log->append("one"));
  ::close(ends[0]);
  EXPECT_THAT(log->append("two").value_or(""), HasSubstr("Broken pipe"));
  EXPECT_THAT(log->close().value_or(""), HasSubstr("1 line could not be written"));
  ::close(ends[1]);
}

TEST_F(RecordLogTest, APipeThatIsReadLateLosesNothingAndTearsNothing) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  auto log = RecordLog::open(path("pipe"));
  ASSERT_TRUE(log);
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  // Longer than what a pipe takes in one piece, and together more than it holds.
  std::string expected;
  std::string read;
  for (int i = 0; i < 40; ++i) {
    const std::string line = std::to_string(i) + std::string(10'000, 'x');
    EXPECT_FALSE(log->append(line));
    expected += line + "\n";
    if (i % 10 == 9) read += drain(reader);
  }
  while (read.size() < expected.size()) {
    const std::string more = drain(reader);
    read += more;
    if (more.empty()) {
      // Whoever comes next takes along what waits.
      EXPECT_FALSE(log->append(""));
      expected += "\n";
    }
  }
  EXPECT_EQ(read, expected);
  EXPECT_EQ(log->dropped(), 0u);
  ::close(reader);
}

}  // namespace
}  // namespace regroup::runtime
