#include "runtime/evidence/evidence_core.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "io/loop/clock.h"

namespace regroup::runtime {
namespace {

const CoreOf kWorker{.pid = 12,
                     .kernel_pid = 4012,
                     .signal = SIGSEGV,
                     .directory = "/job",
                     .program = "python3-with-a-long-name",
                     .host = "node-1",
                     .user = 1000,
                     .group = 100};

std::string expected(const std::string& pattern, bool uses_pid = false) {
  return core_place({.text = pattern, .uses_pid = uses_pid}, kWorker).expected;
}

TEST(CorePlace, IsBelowTheWorkingDirectoryUnlessThePatternIsAbsolute) {
  EXPECT_EQ(expected("core\n"), "/job/core");
  EXPECT_EQ(expected("/cores/core\n"), "/cores/core");
}

TEST(CorePlace, GetsThePidWhereThePatternHasNone) {
  EXPECT_EQ(expected("core", true), "/job/core.12");
  EXPECT_EQ(expected("core-%p", true), "/job/core-12");
  EXPECT_EQ(expected("core-%P", true), "/job/core-4012.12");
}

TEST(CorePlace, FillsInWhatIsKnown) {
  EXPECT_EQ(expected("/c/%p.%P.%s.%u.%g.%h.%%"), "/c/12.4012.11.1000.100.node-1.%");
  EXPECT_EQ(expected("/c/%e-%d"), "/c/python3-with-a--1");  // Cut as the kernel cuts it.
  EXPECT_EQ(expected("/c/%E.%t.%i.%I.%c.%f"), "/c/*.*.*.*.*.*");
  EXPECT_EQ(expected("/c/%Zx%"), "/c/x");  // Unknown ones and a lone % are left out.
}

TEST(CorePlace, LooksForNamesThatAWorkerMayHaveChanged) {
  const auto place = core_place({.text = "/c/[%e].%p", .uses_pid = false}, kWorker);
  EXPECT_EQ(place.glob, "/c/\\[*].12");
}

TEST(CorePlace, KnowsTheHandler) {
  const CorePattern systemd{.text = "|/usr/lib/systemd/systemd-coredump %P %u %g %s %t\n",
                            .uses_pid = true};
  EXPECT_EQ(core_place(systemd, kWorker).handler, "systemd-coredump");
  EXPECT_EQ(core_place(systemd, kWorker).expected, "");
  const CorePattern apport{.text = "|/usr/share/apport/apport -p%p", .uses_pid = false};
  EXPECT_EQ(core_place(apport, kWorker).handler, "apport");
}

TEST(FindCore, TakesTheNewestThatIsNotTooOld) {
  namespace fs = std::filesystem;
  const fs::path directory =
      fs::path(testing::TempDir()) / ("find_core_" + std::to_string(::getpid()));
  fs::create_directories(directory);
  std::ofstream(directory / "core.a.12") << "old";
  std::ofstream(directory / "core.b.12") << "newer";
  std::ofstream(directory / "core.c.13") << "another";
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(directory / "core.a.12", now - std::chrono::hours(1));
  fs::last_write_time(directory / "core.b.12", now - std::chrono::minutes(1));
  const std::string glob = directory / "core.*.12";
  const std::int64_t two_hours_ago = io::utc_micros() - 7'200'000'000;

  const auto found = find_core(glob, two_hours_ago);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, directory / "core.b.12");
  EXPECT_EQ(found->bytes, 5u);
  EXPECT_FALSE(find_core(glob, io::utc_micros()));
  EXPECT_FALSE(find_core(directory / "core.12", two_hours_ago));
  fs::remove_all(directory);
}

}  // namespace
}  // namespace regroup::runtime
