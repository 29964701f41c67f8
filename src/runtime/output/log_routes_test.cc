#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "regroup/logs.h"

namespace regroup {
namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class LogRoutesTest : public testing::Test {
 protected:
  LogRoutesTest() {
    std::string path = testing::TempDir() + "log_routes_XXXXXX";
    top = ::mkdtemp(path.data());
  }
  ~LogRoutesTest() override {
    fs::permissions(top, fs::perms::owner_all);
    fs::remove_all(top);
  }

  std::unique_ptr<LogsSpecs> specs(DefaultLogsOptions options) {
    if (options.log_dir.empty()) options.log_dir = (top / "logs").string();
    auto made = make_default_logs_specs(std::move(options));
    EXPECT_TRUE(made);
    return std::move(*made);
  }

  static Attempt attempt(int restart_count = 0, std::string run_id = "job") {
    return {std::move(run_id), restart_count, {{0, 4, "default"}, {1, 5, "default"}}};
  }

  static std::size_t entries(const fs::path& directory) {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
  }

  fs::path top;
};

TEST_F(LogRoutesTest, HaveTorchrunsNames) {
  auto logs = specs({.redirects = {Streams::Both}});
  const auto routes = logs->routes(attempt(2));
  ASSERT_TRUE(routes);
  EXPECT_EQ(logs->root(), (top / "logs").string());
  const fs::path run = fs::path(routes->directory).parent_path();
  EXPECT_EQ(run.parent_path(), top / "logs");
  EXPECT_THAT(run.filename().string(), testing::MatchesRegex("job_[A-Za-z0-9]{6}"));
  EXPECT_EQ(routes->directory, (run / "attempt_2").string());
  EXPECT_EQ(routes->workers[1].out.file, (run / "attempt_2/1/stdout.log").string());
  EXPECT_EQ(routes->workers[1].err.file, (run / "attempt_2/1/stderr.log").string());
  EXPECT_EQ(routes->workers[1].error_file, (run / "attempt_2/1/error.json").string());
  EXPECT_EQ(routes->filtered_out, (run / "attempt_2/filtered_stdout.log").string());
  EXPECT_EQ(routes->filtered_err, (run / "attempt_2/filtered_stderr.log").string());
  EXPECT_TRUE(fs::is_directory(run / "attempt_2/0"));
  EXPECT_EQ(fs::status(run).permissions(), fs::perms::owner_all);
}

TEST_F(LogRoutesTest, OneRunDirectoryForAllAttempts) {
  auto logs = specs({});
  const auto first = logs->routes(attempt(0));
  const auto second = logs->routes(attempt(1));
  EXPECT_EQ(fs::path(first->directory).parent_path(), fs::path(second->directory).parent_path());
  EXPECT_EQ(entries(top / "logs"), 1u);
}

TEST_F(LogRoutesTest, KeepTheLogsOfAnAttemptThatComesAgain) {
  auto logs = specs({});
  const auto first = logs->routes(attempt());
  std::ofstream(first->workers[0].error_file) << "first";
  const auto second = logs->routes(attempt());
  std::ofstream(second->workers[0].error_file) << "second";
  const auto third = logs->routes(attempt());
  EXPECT_EQ(third->directory, first->directory);
  EXPECT_FALSE(fs::exists(third->workers[0].error_file));
  std::string word;
  std::ifstream(first->directory + ".1/0/error.json") >> word;
  EXPECT_EQ(word, "first");
  std::ifstream(first->directory + ".2/0/error.json") >> word;
  EXPECT_EQ(word, "second");
}

TEST_F(LogRoutesTest, ARunIdMayContainSlashes) {
  const auto routes = specs({})->routes(attempt(0, "team/job"));
  ASSERT_TRUE(routes);
  EXPECT_THAT(fs::path(routes->directory).parent_path().filename().string(),
              StartsWith("team_job_"));
}

TEST_F(LogRoutesTest, TeeAndRedirectAndNeither) {
  auto logs = specs(
      {.redirects = {.by_rank = {{0, Streams::Out}}}, .tee = {.by_rank = {{0, Streams::Err}}}});
  const auto routes = logs->routes(attempt());
  EXPECT_THAT(routes->workers[0].out.file, EndsWith("/0/stdout.log"));
  EXPECT_EQ(routes->workers[0].out.console, Console::No);
  EXPECT_THAT(routes->workers[0].err.file, EndsWith("/0/stderr.log"));
  EXPECT_EQ(routes->workers[0].err.console, Console::Prefixed);
  EXPECT_EQ(routes->workers[1].out, (StreamRoute{"", Console::AsIs}));
  EXPECT_EQ(routes->workers[1].err, (StreamRoute{"", Console::AsIs}));
}

TEST_F(LogRoutesTest, WhoIsFilteredOutIsNotShown) {
  auto logs = specs({.tee = {Streams::Out}, .local_ranks = {0}});
  const auto routes = logs->routes(attempt());
  EXPECT_EQ(routes->workers[0].out.console, Console::Prefixed);
  EXPECT_EQ(routes->workers[0].err.console, Console::AsIs);
  EXPECT_EQ(routes->workers[1].out.console, Console::No);
  EXPECT_THAT(routes->workers[1].out.file, EndsWith("/1/stdout.log"));
  EXPECT_EQ(routes->workers[1].err, (StreamRoute{"", Console::No}));
}

TEST_F(LogRoutesTest, AWorkerMustPassBothFilters) {
  const auto shown = [&](std::set<int> local, std::set<int> global) {
    auto logs = specs({.local_ranks = std::move(local), .global_ranks = std::move(global)});
    std::string who;
    const auto routes = logs->routes(attempt());
    for (const auto& worker : routes->workers)
      who += worker.out.console == Console::AsIs ? 'x' : '-';
    return who;
  };
  EXPECT_EQ(shown({}, {}), "xx");
  EXPECT_EQ(shown({}, {5}), "-x");
  EXPECT_EQ(shown({0}, {5}), "--");
  EXPECT_EQ(shown({1}, {4, 5}), "-x");
}

TEST_F(LogRoutesTest, TheNullDeviceMeansNoFilesAtAll) {
  auto logs = specs({.log_dir = "/dev/null", .redirects = {Streams::Both}});
  const auto routes = logs->routes(attempt());
  ASSERT_TRUE(routes);
  ASSERT_EQ(routes->workers.size(), 2u);
  EXPECT_EQ(routes->workers[0].out, (StreamRoute{"", Console::AsIs}));
  EXPECT_EQ(routes->workers[0].error_file, "");
  EXPECT_EQ(routes->filtered_out + routes->filtered_err + routes->directory + logs->root(), "");
  logs->over(true);
  EXPECT_TRUE(fs::exists("/dev/null"));
}

class TemporaryLogs : public LogRoutesTest {
 protected:
  TemporaryLogs() { ::setenv("TMPDIR", top.c_str(), 1); }
  ~TemporaryLogs() override { ::unsetenv("TMPDIR"); }
  std::unique_ptr<LogsSpecs> logs = std::move(*make_default_logs_specs({}));
};

TEST_F(TemporaryLogs, AreMadeWhenTheyAreNeededAndGoAfterASuccess) {
  EXPECT_EQ(entries(top), 0u);
  EXPECT_EQ(logs->root(), "");
  ASSERT_TRUE(logs->routes(attempt()));
  EXPECT_THAT(fs::path(logs->root()).filename().string(), StartsWith("torchelastic_"));
  EXPECT_EQ(entries(top), 1u);
  logs->over(true);
  EXPECT_EQ(entries(top), 0u);
}

TEST_F(TemporaryLogs, StayAfterAFailureIfAnythingWasWritten) {
  const auto routes = logs->routes(attempt());
  ASSERT_TRUE(routes);
  std::ofstream(routes->workers[0].error_file) << "{}";
  logs->over(false);
  EXPECT_TRUE(fs::is_directory(logs->root()));
}

TEST_F(TemporaryLogs, GoAfterAFailureOtherwise) {
  ASSERT_TRUE(logs->routes(attempt()));
  logs->over(false);
  EXPECT_EQ(entries(top), 0u);
}

TEST_F(TemporaryLogs, ThatNobodyNeededAreNotMissed) {
  logs->over(true);
  EXPECT_EQ(entries(top), 0u);
}

TEST_F(LogRoutesTest, ADirectoryThatWasAskedForStays) {
  auto logs = specs({});
  ASSERT_TRUE(logs->routes(attempt()));
  logs->over(true);
  EXPECT_TRUE(fs::is_directory(logs->root()));
}

TEST_F(LogRoutesTest, AreMadeAnywhere) {
  auto logs = specs({.log_dir = (top / "a/b/c").string()});
  EXPECT_TRUE(logs->routes(attempt()));
}

TEST_F(LogRoutesTest, SayThatAFileIsInTheWay) {
  std::ofstream(top / "file") << "x";
  for (const char* path : {"file", "file/below"}) {
    const auto made = make_default_logs_specs({.log_dir = (top / path).string()});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().kind, ErrorKind::InvalidArgument);
    EXPECT_THAT(made.error().message, HasSubstr((top / path).string()));
    EXPECT_THAT(made.error().message, HasSubstr("irectory"));
  }
}

TEST_F(LogRoutesTest, SayThatTheDirectoryIsNotOurs) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::permissions(top, fs::perms::owner_read | fs::perms::owner_exec);
  for (const fs::path& path : {top, top / "below"}) {
    const auto made = make_default_logs_specs({.log_dir = path.string()});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().kind, ErrorKind::InvalidArgument);
    EXPECT_THAT(made.error().message, HasSubstr("Permission denied"));
  }
}

TEST_F(LogRoutesTest, AreMadeAgainWhereSomebodyTidiedUp) {
  auto logs = specs({});
  fs::remove_all(logs->root());
  EXPECT_TRUE(logs->routes(attempt()));
}

}  // namespace
}  // namespace regroup
