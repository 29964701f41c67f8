// The same against the real kernel, where it lets us.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "io/cgroup/cgroup.h"
#include "io/cgroup/cgroup_directory.h"
#include "io/cgroup/cgroup_files.h"
#include "io/file/kernel_files.h"
#include "io/process/process_testing.h"

namespace regroup::io {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMiB = 1024 * 1024;

std::string name_of_test() {
  return "test-" + std::to_string(::getpid()) + "-" +
         testing::UnitTest::GetInstance()->current_test_info()->name();
}

// Starts a child the way that workers are started: born in the v2 leaf, then joining the v1 leaf.
pid_t start_in(const CgroupLeaf& leaf, const std::function<void()>& work) {
  clone_args args{};
  args.exit_signal = SIGCHLD;
  if (leaf.born_in() >= 0) {
    args.flags = CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(leaf.born_in());
  }
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
  if (pid != 0) return pid;
  for (const GroupToJoin& group : leaf.join())
    if (::write(group.procs, "0", 1) != 1) ::_exit(3);
  work();
  ::_exit(0);
}

int wait_for(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid) << std::strerror(errno);
  return status;
}

void touch(std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (std::uint64_t i = 0; i < bytes; i += 4096) static_cast<volatile char*>(memory)[i] = 1;
}

// Everything of ours below our own groups.
std::vector<std::string> left_behind(const std::string& name) {
  std::vector<std::string> found;
  for (const char* controller : {"", "memory"})
    if (const auto own = find_own_group("/proc", controller))
      for (const auto& entry : fs::directory_iterator(own->directory))
        if (entry.path().filename().string().find(name) != std::string::npos)
          found.push_back(entry.path());
  return found;
}

TEST(Cgroups, CountWhatTheKernelKillsForMemory) {
  {
    const auto tree = CgroupTree::open(name_of_test());
    if (!tree) GTEST_SKIP() << tree.error().message;
    if (!(*tree)->counts_memory())
      GTEST_SKIP() << "no memory controller can be enabled below " << (*tree)->directory();
    const auto leaf = (*tree)->make_leaf("0", 64 * kMiB);
    ASSERT_TRUE(leaf) << leaf.error().message;
    EXPECT_EQ((*leaf)->memory().oom_kills, 0u);
    EXPECT_EQ((*leaf)->memory().limit_bytes, 64 * kMiB);

    const pid_t modest = start_in(**leaf, [] { touch(8 * kMiB); });
    EXPECT_EQ(wait_for(modest), 0);
    EXPECT_EQ((*leaf)->memory().oom_kills, 0u);

    const pid_t greedy = start_in(**leaf, [] { touch(200 * kMiB); });
    const int status = wait_for(greedy);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    EXPECT_GE((*leaf)->memory().oom_kills.value_or(0), 1u);
    EXPECT_GE((*leaf)->memory().peak_bytes.value_or(64 * kMiB), 60 * kMiB);
    EXPECT_EQ((*leaf)->populated(), 0);
  }
  EXPECT_THAT(left_behind(name_of_test()), testing::IsEmpty());
}

TEST(Cgroups, KillAllReachesGrandchildren) {
  {
    const auto tree = CgroupTree::open(name_of_test());
    if (!tree) GTEST_SKIP() << tree.error().message;
    if ((*tree)->directory().empty()) GTEST_SKIP() << "no writable cgroup v2 hierarchy";
    const auto leaf = (*tree)->make_leaf("0");
    ASSERT_TRUE(leaf) << leaf.error().message;
    EXPECT_EQ((*leaf)->populated(), 0);

    // The child leaves a grandchild in a session of its own. It says so through the pipe, which
    // ends when both have.
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = start_in(**leaf, [&] {
      if (::fork() == 0) {
        ::setsid();
        if (::write(ends[1], "x", 1) != 1) ::_exit(4);
        ::pause();
      }
    });
    ::close(ends[1]);
    char said = 0;
    EXPECT_EQ(::read(ends[0], &said, 1), 1);
    EXPECT_EQ(wait_for(child), 0);
    EXPECT_EQ((*leaf)->populated(), 1);
    if (!(*leaf)->kill_all()) {
      ADD_FAILURE() << "no cgroup.kill, or it refused";
    }
    EXPECT_EQ(::read(ends[0], &said, 1), 0);
    ::close(ends[0]);
  }
  EXPECT_THAT(left_behind(name_of_test()), testing::IsEmpty());
}

// On machines that have both hierarchies.
TEST(Cgroups, AProcessAndWhatItStartedMeanwhileJoinTheMemoryGroupLate) {
  auto tree = CgroupTree::open(name_of_test());
  if (!tree) GTEST_SKIP() << tree.error().message;
  const std::vector<std::string> directories = (*tree)->directories();
  if (directories.size() != 2) GTEST_SKIP() << "needs cgroup v2 and the memory group of v1";
  const auto leaf = (*tree)->make_leaf("0");
  ASSERT_TRUE(leaf) << leaf.error().message;
  ASSERT_EQ((*leaf)->join().size(), 1u);
  EXPECT_TRUE((*leaf)->join().front().later);
  ProcessSpec spec = shell("sleep 1000 & sleep 1000 & wait");
  spec.cgroup = (*leaf)->born_in();
  spec.join = (*leaf)->join();
  const Process process = start_one(spec);
  // In whatever order the kernel lists them.
  const auto members = [&](const std::string& directory) {
    std::istringstream lines(read_text(directory + "/0/cgroup.procs").value_or(""));
    return std::set<std::string>(std::istream_iterator<std::string>(lines), {});
  };
  EXPECT_TRUE(eventually([&] {
    const auto all = members(directories[0]);
    return all.size() == 3 && members(directories[1]) == all;
  }));
  EXPECT_TRUE(process.signal_group(SIGKILL));
  EXPECT_TRUE(eventually([&] { return (*leaf)->populated() == 0; }));
}

TEST(Cgroups, AMemoryLimitHoldsBeforeTheProgramBegins) {
  auto tree = CgroupTree::open(name_of_test());
  if (!tree) GTEST_SKIP() << tree.error().message;
  if (!(*tree)->counts_memory()) GTEST_SKIP() << "nothing counts memory here";
  const auto leaf = (*tree)->make_leaf("0", 64 * kMiB);
  ASSERT_TRUE(leaf) << leaf.error().message;
  for (const GroupToJoin& group : (*leaf)->join()) EXPECT_FALSE(group.later);
}

TEST(Cgroups, WhatStillLivesKeepsItsGroup) {
  auto tree = CgroupTree::open(name_of_test());
  if (!tree) GTEST_SKIP() << tree.error().message;
  auto leaf = (*tree)->make_leaf("0");
  ASSERT_TRUE(leaf) << leaf.error().message;
  const std::vector<std::string> directories = (*tree)->directories();
  const pid_t child = start_in(**leaf, [] { ::pause(); });
  // It has joined every hierarchy when the last one has it.
  EXPECT_TRUE(eventually(
      [&] { return !read_text(directories.back() + "/0/cgroup.procs").value_or("").empty(); }));
  leaf->reset();
  tree->reset();
  EXPECT_EQ(left_behind(name_of_test()), directories);
  ::kill(child, SIGKILL);
  wait_for(child);
  for (const std::string& directory : directories) EXPECT_TRUE(remove_group(directory));
}

// In v2 a group that holds us cannot have a controller for its children: the EBUSY of real life.
TEST(Cgroups, TheLoneProcessOfAGroupStepsAsideAndComesBack) {
  const auto own = find_own_group("/proc", "");
  if (!own) GTEST_SKIP() << "no cgroup v2 hierarchy";
  const auto home = make_group(own->directory, name_of_test());
  if (!home) GTEST_SKIP() << home.error().message;
  // Any controller that knows the rule will do.
  std::string controller;
  for (const char* one : {"memory", "io", "hugetlb"})
    if (has_word(read_text(*home + "/cgroup.controllers").value_or(""), one)) controller = one;
  if (controller.empty()) {
    remove_group(*home);
    GTEST_SKIP() << "no controller is handed down by " << own->directory
                 << "/cgroup.subtree_control (+memory, +io or +hugetlb)";
  }
  const pid_t child = ::fork();
  if (child == 0) {
    write_text(*home + "/cgroup.procs", "0");
    auto tree = CgroupTree::open("x", {.proc = "/proc", .controller = controller});
    if (!tree || (*tree)->directory() != *home + "/regroup-x") ::_exit(10);
    if (!has_word(*read_text((*tree)->directory() + "/cgroup.subtree_control"), controller))
      ::_exit(11);
    if (read_text(*home + "/regroup-x-agent/cgroup.procs") != std::to_string(::getpid()) + "\n")
      ::_exit(12);
    if (find_own_group("/proc", "")->directory != *home) ::_exit(13);
    tree->reset();
    if (read_text(*home + "/cgroup.procs") != std::to_string(::getpid()) + "\n") ::_exit(14);
    if (has_word(*read_text(*home + "/cgroup.subtree_control"), controller)) ::_exit(15);
    ::_exit(0);
  }
  const int status = wait_for(child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const auto children_left =
      fs::exists(*home + "/regroup-x") || fs::exists(*home + "/regroup-x-agent");
  EXPECT_FALSE(children_left);
  EXPECT_TRUE(remove_group(*home));
}

}  // namespace
}  // namespace regroup::io
