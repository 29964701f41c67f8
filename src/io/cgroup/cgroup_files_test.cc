#include "io/cgroup/cgroup_files.h"

#include <gtest/gtest.h>

namespace regroup::io {
namespace {

TEST(CgroupMounts, AreFoundAmongTheOthers) {
  const auto mounts = parse_cgroup_mounts(
      "23 1 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
      "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
      "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw shared:9 master:1 - cgroup2 cgroup2 rw\n");
  ASSERT_EQ(mounts.size(), 2u);
  EXPECT_EQ(mounts[0].point, "/sys/fs/cgroup/memory");
  EXPECT_FALSE(mounts[0].unified);
  EXPECT_EQ(mounts[0].options, "rw,memory");
  EXPECT_EQ(mounts[1].point, "/sys/fs/cgroup/unified");
  EXPECT_TRUE(mounts[1].unified);
}

TEST(CgroupMounts, MayHaveBlanksInTheirPaths) {
  const auto mounts =
      parse_cgroup_mounts("35 31 0:32 /a\\040b /my\\134mount\\011 rw - cgroup2 cgroup2 rw");
  ASSERT_EQ(mounts.size(), 1u);
  EXPECT_EQ(mounts[0].root, "/a b");
  EXPECT_EQ(mounts[0].point, "/my\\mount\t");
}

TEST(CgroupMounts, AreNotFoundInHalfALine) {
  for (const char* text :
       {"", "\n", "35", "35 31 0:32 / /sys rw shared:1", "35 31 0:32 / /sys rw -"})
    EXPECT_TRUE(parse_cgroup_mounts(text).empty()) << text;
}

TEST(GroupPath, IsThatOfTheController) {
  const char* hybrid =
      "9:name=systemd:/init\n"
      "4:memory:/jobs/7\n"
      "3:cpu,cpuacct:/c:d\n"
      "0::/user.slice\n";
  EXPECT_EQ(group_path(hybrid, ""), "/user.slice");
  EXPECT_EQ(group_path(hybrid, "memory"), "/jobs/7");
  EXPECT_EQ(group_path(hybrid, "cpuacct"), "/c:d");
  EXPECT_EQ(group_path(hybrid, "pids"), std::nullopt);
  EXPECT_EQ(group_path("4:memory:/\n", ""), std::nullopt);
}

TEST(DirectoryIn, FollowsTheMountsRoot) {
  const CgroupMount whole{.root = "/", .point = "/sys/fs/cgroup", .unified = true, .options = {}};
  EXPECT_EQ(directory_in(whole, "/"), "/sys/fs/cgroup");
  EXPECT_EQ(directory_in(whole, "/a/b"), "/sys/fs/cgroup/a/b");

  // Docker with v1: the container's group is mounted where the host has the root.
  const CgroupMount part{
      .root = "/docker/12", .point = "/sys/fs/cgroup", .unified = true, .options = {}};
  EXPECT_EQ(directory_in(part, "/docker/12"), "/sys/fs/cgroup");
  EXPECT_EQ(directory_in(part, "/docker/12/x"), "/sys/fs/cgroup/x");
  EXPECT_EQ(directory_in(part, "/docker/123"), std::nullopt);
  EXPECT_EQ(directory_in(part, "/"), std::nullopt);
}

TEST(DirectoryIn, DoesNotGuessOutsideOfTheNamespace) {
  const CgroupMount whole{.root = "/", .point = "/sys/fs/cgroup", .unified = true, .options = {}};
  EXPECT_EQ(directory_in(whole, "/../other"), std::nullopt);
  const CgroupMount hosts{
      .root = "/../..", .point = "/host/cgroup", .unified = true, .options = {}};
  EXPECT_EQ(directory_in(hosts, "/"), std::nullopt);
}

TEST(ParseLimit, KnowsHowBothVersionsSayNone) {
  EXPECT_EQ(parse_limit("67108864\n"), 67108864u);
  EXPECT_EQ(parse_limit("max\n"), std::nullopt);
  EXPECT_EQ(parse_limit("9223372036854771712\n"), std::nullopt);
  EXPECT_EQ(parse_limit("9223372036854710272\n"), std::nullopt);  // With pages of 64 KiB.
  EXPECT_EQ(parse_limit(""), std::nullopt);
}

}  // namespace
}  // namespace regroup::io
