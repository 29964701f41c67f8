#include "io/machine/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "io/file/file_tree_testing.h"

namespace regroup::io {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Gpu> four() {
  std::vector<Gpu> gpus(4);
  gpus[0].uuid = "GPU-aa00";
  gpus[1].uuid = "GPU-aa11";
  gpus[2].uuid = "GPU-bb22";
  gpus[3].uuid = "GPU-cc33";
  return gpus;
}

std::vector<std::string> uuids(const std::vector<Gpu>& gpus) {
  std::vector<std::string> all;
  all.reserve(gpus.size());
  for (const Gpu& gpu : gpus) all.push_back(gpu.uuid.substr(4));
  return all;
}
std::vector<std::string> seen(std::string_view list) { return uuids(visible_gpus(four(), list)); }

TEST(VisibleGpus, AreListedByNumber) {
  EXPECT_THAT(seen("0"), ElementsAre("aa00"));
  EXPECT_THAT(seen("3,1"), ElementsAre("cc33", "aa11"));
  EXPECT_THAT(seen(" 3 , +1gpu"), ElementsAre("cc33", "aa11"));
}

TEST(VisibleGpus, AreListedByUuid) {
  EXPECT_THAT(seen("GPU-bb,GPU-aa11"), ElementsAre("bb22", "aa11"));
  EXPECT_THAT(seen("GPU-aa,GPU-bb"), IsEmpty());  // It could be either.
  EXPECT_THAT(seen("GPU-bb,GPU-xx,GPU-cc"), ElementsAre("bb22"));
  EXPECT_THAT(seen("GPU-bb,1"), ElementsAre("bb22"));
}

TEST(VisibleGpus, EndWithTheFirstEntryThatIsNone) {
  EXPECT_THAT(seen("1,-1,2"), ElementsAre("aa11"));
  EXPECT_THAT(seen("1,4,2"), ElementsAre("aa11"));
  EXPECT_THAT(seen("1,,2"), ElementsAre("aa11"));
  EXPECT_THAT(seen("1,GPU-bb"), ElementsAre("aa11"));
  for (const char* list : {"", " ", "-1", "none", "NoDevFiles", "99999999999999999999999"})
    EXPECT_THAT(seen(list), IsEmpty()) << list;
}

TEST(VisibleGpus, AreNoneIfOneIsListedTwice) {
  EXPECT_THAT(seen("0,1,0"), IsEmpty());
  EXPECT_THAT(seen("0,9,0"), IsEmpty());
  EXPECT_THAT(seen("GPU-bb,GPU-bb22"), IsEmpty());
  EXPECT_THAT(seen("0,-1,0"), ElementsAre("aa00"));
}

TEST(VisibleGpus, MayBeTheFirstMigDevice) {
  std::vector<Gpu> gpus = four();
  gpus[1].pci_address = "0000:19:00.0";
  gpus[1].mig_uuids = {"MIG-11", "MIG-12"};
  const Gpu second{.uuid = "MIG-12", .pci_address = "0000:19:00.0", .mig_uuids = {}};
  EXPECT_THAT(visible_gpus(gpus, "MIG-12,MIG-11"), ElementsAre(second));
  EXPECT_THAT(visible_gpus(gpus, "MIG-99,MIG-11"), IsEmpty());
  const Gpu old{.uuid = "MIG-GPU-aa11/7/0", .pci_address = "0000:19:00.0", .mig_uuids = {}};
  EXPECT_THAT(visible_gpus(gpus, "MIG-GPU-aa11/7/0"), ElementsAre(old));
  EXPECT_THAT(visible_gpus(gpus, "MIG-GPU-zz/7/0"), IsEmpty());
}

TEST(NarrowNvidia, SaysByWhat) {
  const Devices all = narrow_nvidia(four(), {.cuda = {}, .hip = "0", .rocr = "0"});
  EXPECT_EQ(all.gpus.size(), 4u);
  EXPECT_EQ(all.narrowed_by, "");
  const Devices some = narrow_nvidia(four(), {.cuda = "2,3", .hip = {}, .rocr = {}});
  EXPECT_THAT(uuids(some.gpus), ElementsAre("bb22", "cc33"));
  EXPECT_EQ(some.gpus_present, 4u);
  EXPECT_EQ(some.narrowed_by, "CUDA_VISIBLE_DEVICES=2,3");
}

TEST(NarrowAmd, CountsWithinWhatRocrLeaves) {
  const auto seen_with = [](const VisibleDevices& visible) {
    return uuids(narrow_amd(four(), visible).gpus);
  };
  EXPECT_THAT(seen_with({.cuda = {}, .hip = "1", .rocr = "2,3"}), ElementsAre("cc33"));
  EXPECT_THAT(seen_with({.cuda = "0", .hip = "1", .rocr = {}}), ElementsAre("aa11"));
  EXPECT_THAT(seen_with({.cuda = "0", .hip = {}, .rocr = "3"}), ElementsAre("cc33"));
  EXPECT_THAT(seen_with({.cuda = {}, .hip = {}, .rocr = "GPU-bb22"}), ElementsAre("bb22"));
  EXPECT_EQ(narrow_amd(four(), {.cuda = {}, .hip = "0", .rocr = "2,3"}).narrowed_by,
            "ROCR_VISIBLE_DEVICES=2,3 HIP_VISIBLE_DEVICES=0");
}

TEST(FindNvidiaGpus, ReadsTheDriversFiles) {
  const FileTree tree;
  tree.add("/proc/driver/nvidia/gpus/0000:3b:00.0/information",
           "Model: \t\t H100\nGPU UUID: \t GPU-?"
           "???\nDevice Minor: \t 1\n");
  tree.add("/proc/driver/nvidia/gpus/0000:19:00.0/information",
           "Model: \t\t H100\nGPU UUID: \t GPU-5d5b-11\nDevice Minor: \t 0\n");
  tree.add("/proc/driver/nvidia/gpus/0000:4c:00.0/power");
  tree.add("/dev/nvidia0");
  EXPECT_THAT(
      find_nvidia_gpus(tree.root()),
      ElementsAre(Gpu{.uuid = "GPU-5d5b-11", .pci_address = "0000:19:00.0", .mig_uuids = {}},
                  Gpu{.uuid = "", .pci_address = "0000:3b:00.0", .mig_uuids = {}},
                  Gpu{.uuid = "", .pci_address = "0000:4c:00.0", .mig_uuids = {}}));
}

TEST(FindNvidiaGpus, CountsDeviceFilesForWantOfBetter) {
  const FileTree tree;
  EXPECT_THAT(find_nvidia_gpus(tree.root()), IsEmpty());
  for (const char* name : {"nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia"})
    tree.add(std::string("/dev/") + name);
  EXPECT_EQ(find_nvidia_gpus(tree.root()).size(), 3u);
}

TEST(FindAmdGpus, LeavesOutTheCpus) {
  const FileTree tree;
  const std::string nodes = "/sys/class/kfd/kfd/topology/nodes/";
  EXPECT_THAT(find_amd_gpus(tree.root()), IsEmpty());
  tree.add(nodes + "0/properties", "cpu_cores_count 64\nsimd_count 0\n");
  tree.add(nodes + "10/properties", "simd_count 304\nunique_id 0\nlocation_id 59648\ndomain 1\n");
  tree.add(nodes + "2/properties",
           "cpu_cores_count 0\nsimd_count 304\nunique_id 4660\nlocation_id 1280\ndomain 0\n");
  tree.add(nodes + "3/name");
  EXPECT_THAT(
      find_amd_gpus(tree.root()),
      ElementsAre(
          Gpu{.uuid = "GPU-0000000000001234", .pci_address = "0000:05:00.0", .mig_uuids = {}},
          Gpu{.uuid = "", .pci_address = "0001:e9:00.0", .mig_uuids = {}}));
}

TEST(AllowedCpus, AreThoseOfTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  const std::vector<int> all = allowed_cpus();
  EXPECT_EQ(all.size(), static_cast<std::size_t>(CPU_COUNT(&before)));
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(all.back(), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_THAT(allowed_cpus(), ElementsAre(all.back()));
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(LookForDevices, AlwaysFindsCpus) {
  const Devices devices = look_for_devices();
  EXPECT_EQ(devices.cpus, allowed_cpus());
  EXPECT_LE(devices.gpus.size(), devices.gpus_present);
}

}  // namespace
}  // namespace regroup::io
