#include "io/machine/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/file/file_tree_testing.h"

namespace regroup::io {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string kCpus = "/sys/devices/system/cpu/";

void add_cache(const FileTree& tree, int cpu, int index, const std::string& level,
               const std::string& type, const std::string& shared) {
  const std::string directory =
      kCpus + "cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index);
  tree.add(directory + "/level", level + "\n");
  tree.add(directory + "/type", type + "\n");
  tree.add(directory + "/shared_cpu_list", shared + "\n");
}

// Two sockets, each a node of two cores; cores have one thread on socket 1, two on socket 0.
void add_machine(const FileTree& tree) {
  tree.add(kCpus + "online", "0-5\n");
  tree.add("/sys/devices/system/node/node0/cpulist", "0-1,4-5\n");
  tree.add("/sys/devices/system/node/node1/cpulist", "2-3\n");
  tree.add("/sys/devices/system/node/node2/cpulist", "\n");  // Memory alone.
  tree.add("/sys/devices/system/node/possible", "0-2\n");
  const char* const siblings[] = {"0,4", "1,5", "2", "3", "0,4", "1,5"};
  for (int cpu = 0; cpu < 6; ++cpu) {
    const bool second = cpu == 2 || cpu == 3;
    const std::string directory = kCpus + "cpu" + std::to_string(cpu) + "/topology/";
    tree.add(directory + "physical_package_id", second ? "1\n" : "0\n");
    tree.add(directory + "thread_siblings_list", std::string(siblings[cpu]) + "\n");
    add_cache(tree, cpu, 0, "1", "Data", siblings[cpu]);
    add_cache(tree, cpu, 1, "1", "Instruction", siblings[cpu]);
    add_cache(tree, cpu, 2, "3", "Unified", second ? "2-3" : "0-1,4-5");
    add_cache(tree, cpu, 3, "2", "Unified", siblings[cpu]);
    add_cache(tree, cpu, 4, "4", "Instruction", siblings[cpu]);
  }
}

Gpu gpu_at(const std::string& address) {
  return {.uuid = {}, .pci_address = address, .mig_uuids = {}};
}

template <class Member>
std::vector<Member> each(const Topology& topology, Member Cpu::*member) {
  std::vector<Member> values;
  values.reserve(topology.cpus.size());
  for (const Cpu& cpu : topology.cpus) values.push_back(cpu.*member);
  return values;
}

TEST(ReadTopology, FindsWhatBelongsTogether) {
  const FileTree tree;
  add_machine(tree);
  const auto topology = read_topology({}, {1, 2, 7}, tree.root());
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_THAT(each(*topology, &Cpu::id), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(each(*topology, &Cpu::node), ElementsAre(0, 0, 1, 1, 0, 0));
  EXPECT_THAT(each(*topology, &Cpu::socket), ElementsAre(0, 0, 1, 1, 0, 0));
  EXPECT_THAT(each(*topology, &Cpu::core), ElementsAre(0, 1, 2, 3, 0, 1));
  EXPECT_THAT(each(*topology, &Cpu::cache), ElementsAre(0, 0, 2, 2, 0, 0));
  EXPECT_THAT(each(*topology, &Cpu::allowed), ElementsAre(false, true, true, false, false, false));
}

TEST(ReadTopology, FindsTheNodesOfGpus) {
  const FileTree tree;
  add_machine(tree);
  tree.add("/sys/bus/pci/devices/0000:19:00.0/numa_node", "1\n");
  tree.add("/sys/bus/pci/devices/0000:3b:00.0/numa_node", "-1\n");
  const auto topology = read_topology(
      {gpu_at("0000:19:00.0"), gpu_at("0000:3b:00.0"), gpu_at("0000:ff:00.0"), gpu_at("")}, {},
      tree.root());
  ASSERT_TRUE(topology);
  EXPECT_THAT(topology->device_nodes, ElementsAre(1, 0, -1, -1));
}

TEST(ReadTopology, NeedsNoNodesOrCachesOnASmallMachine) {
  const FileTree tree;
  tree.add(kCpus + "online", "0-1\n");
  const auto topology = read_topology({gpu_at("")}, {0, 1}, tree.root());
  ASSERT_TRUE(topology);
  EXPECT_THAT(each(*topology, &Cpu::node), ElementsAre(0, 0));
  EXPECT_THAT(each(*topology, &Cpu::core), ElementsAre(0, 1));
  EXPECT_THAT(each(*topology, &Cpu::cache), ElementsAre(-1, -1));
  EXPECT_THAT(topology->device_nodes, ElementsAre(0));
}

TEST(ReadTopology, FailsWithoutSysfs) {
  const FileTree tree;
  const auto topology = read_topology({}, {0}, tree.root());
  ASSERT_FALSE(topology);
  EXPECT_EQ(topology.error().kind, ErrorKind::Io);
  EXPECT_THAT(topology.error().message, testing::HasSubstr("/sys/devices/system/cpu/online"));
}

TEST(ReadTopology, KnowsThisMachine) {
  const auto topology = read_topology({}, allowed_cpus());
  ASSERT_TRUE(topology) << topology.error().message;
  std::vector<int> allowed;
  for (const Cpu& cpu : topology->cpus)
    if (cpu.allowed) allowed.push_back(cpu.id);
  EXPECT_EQ(allowed, allowed_cpus());
}

TEST(ParseCpuList, ReadsRangesAndNumbers) {
  EXPECT_THAT(*parse_cpu_list("0-2,4,6-7\n"), ElementsAre(0, 1, 2, 4, 6, 7));
  EXPECT_THAT(*parse_cpu_list("5,0,5"), ElementsAre(0, 5));
  EXPECT_THAT(*parse_cpu_list("\n"), IsEmpty());
  for (const char* text : {"a", "1-", "-1", "3-1", "1,", "1,,2", "0-99999999", "1 2", "1-2-3"})
    EXPECT_EQ(parse_cpu_list(text), std::nullopt) << text;
}

}  // namespace
}  // namespace regroup::io
