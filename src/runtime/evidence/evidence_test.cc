// The whole way, with real ends of real processes.
#include "runtime/evidence/evidence.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>

namespace regroup::runtime {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kMiB = 1024 * 1024;

// Runs to its end; signals itself rather than being signalled, which looks the same from outside.
Ended end_of(const std::function<void()>& work) {
  Ended ended;
  ended.pid = ::fork();
  if (ended.pid == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(::wait4(ended.pid, &status, 0, &usage), ended.pid);
  ended.exit.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  ended.exit.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  ended.exit.core_dumped = WIFSIGNALED(status) && WCOREDUMP(status);
  ended.exit.peak_rss_bytes = usage.ru_maxrss * 1024;
  return ended;
}

std::string all_lines(const Evidence& evidence) {
  std::string text;
  for (const std::string& line : evidence.lines) text += line + "\n";
  return text;
}

void enter(const io::CgroupLeaf& leaf) {
  for (const io::GroupToJoin& group : leaf.join())
    if (::write(group.procs, "0", 1) != 1) ::_exit(3);
  if (leaf.born_in() < 0) return;
  const int fd = ::openat(leaf.born_in(), "cgroup.procs", O_WRONLY | O_CLOEXEC);
  if (::write(fd, "0", 1) != 1) ::_exit(4);
}

TEST(TakeEvidence, OfAKillByHandClaimsNothing) {
  // In a group of its own, where there is one: another test may be killed for memory right now.
  auto tree = io::CgroupTree::open("by-hand-" + std::to_string(::getpid()));
  std::unique_ptr<io::CgroupLeaf> leaf;
  if (tree) leaf = std::move((*tree)->make_leaf("0").value());
  const Before before = look_before_start();
  const Ended ended = end_of([&] {
    if (leaf) enter(*leaf);
    ::raise(SIGKILL);
  });
  const Evidence evidence = take_evidence(ended, before, leaf.get());
  EXPECT_EQ(evidence.out_of_memory, OutOfMemory::NoSign);
  EXPECT_THAT(evidence.lines.at(0), HasSubstr("killed from outside"));
  EXPECT_THAT(all_lines(evidence), Not(HasSubstr("out of memory")));
  EXPECT_GT(evidence.peak_rss_bytes, 0);
}

TEST(TakeEvidence, OfAGreedyWorkerProvesIt) {
  auto tree = io::CgroupTree::open("greedy-" + std::to_string(::getpid()));
  if (!tree) GTEST_SKIP() << tree.error().message;
  if (!(*tree)->counts_memory())
    GTEST_SKIP() << "no memory controller can be enabled below " << (*tree)->directory();
  auto leaf = (*tree)->make_leaf("0", 64 * kMiB);
  ASSERT_TRUE(leaf) << leaf.error().message;

  const Before before = look_before_start();
  const Ended ended = end_of([&] {
    enter(**leaf);
    auto* memory = static_cast<volatile char*>(
        ::mmap(nullptr, 200 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (std::size_t i = 0; i < 200 * kMiB; i += 4096) memory[i] = 1;
  });
  ASSERT_EQ(ended.exit.signal, SIGKILL) << "exit code " << ended.exit.code;
  const Evidence evidence = take_evidence(ended, before, leaf->get());
  EXPECT_EQ(evidence.out_of_memory, OutOfMemory::Proven);
  EXPECT_THAT(evidence.lines.at(0), HasSubstr("out of memory: the kernel killed it (oom_kill +1"));
  EXPECT_THAT(evidence.lines.at(0), HasSubstr("of 64.0 MiB"));

  // Without a look at the leaf the log, where it may be read, still knows.
  if (!before.kernel_log) return;
  const Evidence by_log = take_evidence(ended, before, nullptr);
  EXPECT_EQ(by_log.out_of_memory, OutOfMemory::Proven);
  EXPECT_THAT(by_log.lines.at(0), HasSubstr("Killed process " + std::to_string(ended.pid)));
}

TEST(TakeEvidence, OfACrashFindsTheCore) {
  namespace fs = std::filesystem;
  const fs::path directory =
      fs::path(testing::TempDir()) / ("evidence_core_" + std::to_string(::getpid()));
  fs::create_directories(directory);
  const Before before = look_before_start();
  Ended ended = end_of([&] {
    const rlimit all{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_CORE, &all);
    if (::chdir(directory.c_str()) != 0) ::_exit(3);
    ::signal(SIGSEGV, SIG_DFL);
    ::raise(SIGSEGV);
  });
  ended.directory = directory;
  ended.program = "runtime_test";
  ASSERT_EQ(ended.exit.signal, SIGSEGV);
  const Evidence evidence = take_evidence(ended, before, nullptr);
  EXPECT_EQ(evidence.core_file.empty(), !ended.exit.core_dumped);
  if (fs::exists(evidence.core_file)) {
    EXPECT_THAT(evidence.lines.at(0), HasSubstr("core file: " + evidence.core_file));
  }
  fs::remove_all(directory);
}

}  // namespace
}  // namespace regroup::runtime
