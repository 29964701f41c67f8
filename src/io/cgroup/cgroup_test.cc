#include "io/cgroup/cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "io/file/kernel_files.h"

namespace regroup::io {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

constexpr std::uint64_t kMiB = 1024 * 1024;

std::string pid_text() { return std::to_string(::getpid()); }

// A /proc and a hierarchy of plain files.
class FakeCgroups : public testing::Test {
 public:
  ~FakeCgroups() override { fs::remove_all(root); }

 protected:
  fs::path root = fs::path(testing::TempDir()) /
                  (std::string("cgroup_") + pid_text() + "_" +
                   testing::UnitTest::GetInstance()->current_test_info()->name());
  CgroupView view{.proc = root / "proc"};

  void file(const fs::path& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  std::string text_of(const fs::path& path) { return read_text(root / path).value_or("missing"); }
  std::string at(const fs::path& path) { return root / path; }

  // A container with v2, as most users have it.
  void only_v2(const std::string& path) {
    file("proc/self/cgroup", "0::" + path + "\n");
    file("proc/self/mountinfo", "35 31 0:32 / " + at("cg") + " rw,relatime - cgroup2 cgroup2 rw\n");
    file("cg" + path + "/cgroup.procs", "1\n");
  }
  void only_v1(const std::string& path) {
    file("proc/self/cgroup", "4:memory:" + path + "\n");
    file("proc/self/mountinfo", "35 31 0:32 / " + at("cg") + " rw - cgroup cgroup rw,memory\n");
    file("cg" + path + "/cgroup.procs", "1\n");
  }
};

TEST_F(FakeCgroups, OwnAccountIsThatOfTheNearestLimit) {
  only_v2("/pod/container/inner");
  file("cg/pod/container/inner/memory.events", "oom 0\noom_kill 0\n");
  file("cg/pod/container/inner/memory.max", "max\n");
  file("cg/pod/container/memory.events", "oom 2\noom_kill 2\n");
  file("cg/pod/container/memory.max", "1048576\n");
  file("cg/pod/container/memory.peak", "1048000\n");
  file("cg/pod/memory.events", "oom 9\noom_kill 9\n");
  file("cg/pod/memory.max", "2097152\n");
  const auto account = own_memory_account(view.proc);
  ASSERT_TRUE(account);
  EXPECT_EQ(account->group, at("cg/pod/container"));
  EXPECT_EQ(account->oom_kills, 2u);
  EXPECT_EQ(account->peak_bytes, 1048000u);
  EXPECT_EQ(account->limit_bytes, 1048576u);
}

TEST_F(FakeCgroups, OwnAccountIsOurOwnWithoutAnyLimit) {
  only_v2("/user/shell");
  file("cg/user/shell/memory.events", "oom_kill 1\n");
  file("cg/user/memory.events", "oom_kill 4\n");
  file("cg/user/memory.max", "max\n");
  const auto account = own_memory_account(view.proc);
  ASSERT_TRUE(account);
  EXPECT_EQ(account->group, at("cg/user/shell"));
  EXPECT_EQ(account->oom_kills, 1u);
  EXPECT_EQ(account->limit_bytes, std::nullopt);
}

TEST_F(FakeCgroups, OwnAccountIsEmptyWithoutAController) {
  EXPECT_FALSE(own_memory_account(view.proc));
  only_v2("/");
  EXPECT_FALSE(own_memory_account(view.proc));
}

TEST_F(FakeCgroups, OwnAccountOfV1AddsOurKillsToThoseOfTheLimitedGroup) {
  only_v1("/job/step");
  file("cg/job/step/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  file("cg/job/step/memory.limit_in_bytes", "9223372036854771712\n");
  file("cg/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  file("cg/job/memory.limit_in_bytes", "1048576\n");
  file("cg/job/memory.max_usage_in_bytes", "1000\n");
  const auto account = own_memory_account(view.proc);
  ASSERT_TRUE(account);
  EXPECT_EQ(account->group, at("cg/job"));
  EXPECT_EQ(account->oom_kills, 3u);
  EXPECT_EQ(account->peak_bytes, 1000u);
}

TEST_F(FakeCgroups, OwnAccountIsTheSameAfterSteppingAside) {
  only_v2("/box/regroup-7-agent");
  file("cg/box/memory.events", "oom_kill 5\n");
  file("cg/box/regroup-7-agent/memory.events", "oom_kill 0\n");
  EXPECT_EQ(own_memory_account(view.proc)->oom_kills, 5u);
}

TEST_F(FakeCgroups, MachineWideKillsComeFromVmstat) {
  EXPECT_FALSE(machine_oom_kills(view.proc));
  file("proc/vmstat", "nr_free_pages 12\noom_kill 17\n");
  EXPECT_EQ(machine_oom_kills(view.proc), 17u);
}

TEST_F(FakeCgroups, LeavesAreMadeAndRemoved) {
  only_v2("/box");
  {
    auto tree = CgroupTree::open("7", view);
    ASSERT_TRUE(tree) << tree.error().message;
    EXPECT_EQ((*tree)->directory(), at("cg/box/regroup-7"));
    EXPECT_THAT((*tree)->directories(), ElementsAre(at("cg/box/regroup-7")));
    EXPECT_FALSE((*tree)->counts_memory());
    auto leaf = (*tree)->make_leaf("0");
    ASSERT_TRUE(leaf) << leaf.error().message;
    EXPECT_EQ((*leaf)->directory(), at("cg/box/regroup-7/0"));
    EXPECT_GE((*leaf)->born_in(), 0);
    EXPECT_THAT((*leaf)->join(), IsEmpty());
    EXPECT_FALSE((*leaf)->kill_all());
    EXPECT_EQ((*leaf)->populated(), std::nullopt);
    tree->reset();
    EXPECT_TRUE(fs::exists(at("cg/box/regroup-7/0")));  // The leaf keeps what it stands on.
  }
  EXPECT_FALSE(fs::exists(at("cg/box/regroup-7")));
}

TEST_F(FakeCgroups, LeavesReadTheirOwnFiles) {
  only_v2("/box");
  auto tree = CgroupTree::open("7", view);
  auto leaf = (*tree)->make_leaf("0");
  EXPECT_EQ((*leaf)->memory().oom_kills, std::nullopt);
  file("cg/box/regroup-7/0/memory.events", "oom_kill 1\n");
  file("cg/box/regroup-7/0/memory.max", "64\n");
  file("cg/box/regroup-7/0/cgroup.events", "populated 1\nfrozen 0\n");
  file("cg/box/regroup-7/0/cgroup.kill", "");
  EXPECT_EQ((*leaf)->memory().oom_kills, 1u);
  EXPECT_EQ((*leaf)->memory().peak_bytes, std::nullopt);  // As before Linux 5.19.
  EXPECT_EQ((*leaf)->memory().limit_bytes, 64u);
  EXPECT_EQ((*leaf)->populated(), 1);
  EXPECT_TRUE((*leaf)->kill_all());
  EXPECT_EQ(text_of("cg/box/regroup-7/0/cgroup.kill"), "1");
}

TEST_F(FakeCgroups, WithV1AloneTheTreeCountsAndALeafNamesWhatIsMissing) {
  only_v1("/box");
  auto tree = CgroupTree::open("7", view);
  ASSERT_TRUE(tree) << tree.error().message;
  EXPECT_EQ((*tree)->directory(), "");
  EXPECT_TRUE((*tree)->counts_memory());
  // Plain directories come without the files that a leaf needs.
  const auto leaf = (*tree)->make_leaf("0");
  ASSERT_FALSE(leaf);
  EXPECT_THAT(leaf.error().message, HasSubstr("cg/box/regroup-7/0/cgroup.procs: No such file"));
}

TEST_F(FakeCgroups, ATreeInUseIsLeftAloneAndAnAbandonedOneIsReplaced) {
  only_v2("/box");
  auto first = CgroupTree::open("7", view);
  auto second = CgroupTree::open("7", view);
  EXPECT_EQ((*second)->directory(), at("cg/box/regroup-7.2"));
  second->reset();
  first->reset();
  fs::create_directories(at("cg/box/regroup-7/0"));
  auto third = CgroupTree::open("7", view);
  EXPECT_EQ((*third)->directory(), at("cg/box/regroup-7"));
  EXPECT_FALSE(fs::exists(at("cg/box/regroup-7/0")));
}

TEST_F(FakeCgroups, TwoLeavesOfOneNameAreTwoDirectories) {
  only_v2("/box");
  auto tree = CgroupTree::open("7", view);
  auto old_round = (*tree)->make_leaf("0");
  auto new_round = (*tree)->make_leaf("0");
  EXPECT_EQ((*new_round)->directory(), at("cg/box/regroup-7/0.2"));
  EXPECT_TRUE(fs::exists((*old_round)->directory()));
}

TEST_F(FakeCgroups, NamesAreNoPaths) {
  only_v2("/box");
  for (const char* name : {"", "..", "a/b"})
    EXPECT_EQ(CgroupTree::open(name, view).error().kind, ErrorKind::InvalidArgument) << name;
  auto tree = CgroupTree::open("7", view);
  EXPECT_EQ((*tree)->make_leaf("../x").error().kind, ErrorKind::InvalidArgument);
}

TEST_F(FakeCgroups, ALimitNeedsSomethingThatCounts) {
  only_v2("/box");
  auto tree = CgroupTree::open("7", view);
  const auto leaf = (*tree)->make_leaf("0", 64 * kMiB);
  ASSERT_FALSE(leaf);
  EXPECT_EQ(leaf.error().kind, ErrorKind::Refused);
  EXPECT_THAT(leaf.error().message, HasSubstr("memory controller"));
  EXPECT_FALSE(fs::exists((*tree)->directory() + "/0"));
}

TEST_F(FakeCgroups, TheControllerIsTakenBackIfTheTreeCannotHaveIt) {
  only_v2("/box");
  file("cg/box/cgroup.controllers", "cpu memory\n");
  file("cg/box/cgroup.subtree_control", "");
  auto tree = CgroupTree::open("7", view);
  EXPECT_FALSE((*tree)->counts_memory());
  EXPECT_EQ(text_of("cg/box/cgroup.subtree_control"), "-memory");
}

TEST_F(FakeCgroups, ATreeThatCannotBeMadeSaysWhyAndWhatToDo) {
  only_v2("/box");
  // Root may write everywhere, so the name is what the kernel cannot take.
  const auto tree = CgroupTree::open(std::string(300, 'x'), view);
  ASSERT_FALSE(tree);
  EXPECT_EQ(tree.error().kind, ErrorKind::Io);
  EXPECT_THAT(tree.error().message,
              AllOf(HasSubstr(at("cg/box/regroup-xxx")), HasSubstr("File name too long"),
                    HasSubstr("Delegate=yes"), HasSubstr("Kubernetes")));
}

TEST_F(FakeCgroups, WithoutAnyHierarchyThereIsNoTree) {
  const auto tree = CgroupTree::open("7", view);
  ASSERT_FALSE(tree);
  EXPECT_EQ(tree.error().kind, ErrorKind::Refused);
  EXPECT_THAT(tree.error().message, HasSubstr("no hierarchy is mounted"));
}

}  // namespace
}  // namespace regroup::io
