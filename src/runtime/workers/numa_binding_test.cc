#include "runtime/workers/numa_binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/text.h"

namespace regroup::runtime {
namespace {

using testing::HasSubstr;

// Two sockets of two nodes of four cores; the second threads of the cores are numbered 16 and up.
// Two cores share a cache. A GPU on node 0, two on node 1, one on node 3.
io::Topology machine() {
  constexpr int kCores = 16;
  io::Topology topology;
  for (int id = 0; id < 2 * kCores; ++id) {
    io::Cpu cpu;
    cpu.id = id;
    cpu.core = id % kCores;
    cpu.node = cpu.core / 4;
    cpu.socket = cpu.core / 8;
    cpu.cache = cpu.core / 2 * 2;
    cpu.allowed = true;
    topology.cpus.push_back(cpu);
  }
  topology.device_nodes = {0, 1, 1, 3};
  return topology;
}

io::Topology machine_with(const std::vector<int>& allowed) {
  io::Topology topology = machine();
  for (io::Cpu& cpu : topology.cpus)
    cpu.allowed = std::find(allowed.begin(), allowed.end(), cpu.id) != allowed.end();
  return topology;
}

// "0-3, 16-19 on 0; ...", by local rank.
std::string bound(NumaMode mode, const io::Topology& topology, int workers = 4) {
  const auto bindings = numa_bindings(mode, topology, workers);
  if (!bindings) return bindings.error().message;
  std::string text;
  for (const NumaBinding& binding : *bindings) {
    if (!text.empty()) text += "; ";
    text += in_ranges(binding.cpus) + " on " + in_ranges(binding.nodes);
  }
  return text;
}

TEST(NumaBindings, ByNodeTakeAllOfTheNode) {
  EXPECT_EQ(bound(NumaMode::Node, machine()),
            "0-3, 16-19 on 0; 4-7, 20-23 on 1; 4-7, 20-23 on 1; 12-15, 28-31 on 3");
}

TEST(NumaBindings, BySocketTakeItsOtherNodesToo) {
  EXPECT_EQ(bound(NumaMode::Socket, machine()),
            "0-7, 16-23 on 0, 1; 0-7, 16-23 on 0, 1; 0-7, 16-23 on 0, 1; 8-15, 24-31 on 2, 3");
}

TEST(NumaBindings, ExclusiveShareOutWholeCores) {
  EXPECT_EQ(bound(NumaMode::Exclusive, machine()),
            "0-3, 16-19 on 0; 4, 5, 20, 21 on 1; 6, 7, 22, 23 on 1; 12-15, 28-31 on 3");
}

TEST(NumaBindings, ExclusiveGiveTheFirstOnesWhatIsLeftOver) {
  io::Topology topology = machine();
  topology.device_nodes = {1, 0, 1, 1};
  EXPECT_EQ(bound(NumaMode::Exclusive, topology),
            "4, 5, 20, 21 on 1; 0-3, 16-19 on 0; 6, 22 on 1; 7, 23 on 1");
}

TEST(NumaBindings, ExclusiveLeaveRoomForGpusWithoutAWorker) {
  EXPECT_EQ(bound(NumaMode::Exclusive, machine(), 2), "0-3, 16-19 on 0; 4, 5, 20, 21 on 1");
}

TEST(NumaBindings, ExclusiveNeedACoreForEachGpu) {
  io::Topology topology = machine();
  topology.device_nodes = {0, 0, 0, 0, 0};
  const auto bindings = numa_bindings(NumaMode::Exclusive, topology, 1);
  ASSERT_FALSE(bindings);
  EXPECT_EQ(bindings.error().kind, ErrorKind::Refused);
  EXPECT_THAT(bindings.error().message,
              HasSubstr("NUMA node 0 has 4 cores that we may use, for 5 GPUs"));
}

TEST(NumaBindings, ByCoreComplexTakeTurns) {
  EXPECT_EQ(bound(NumaMode::CoreComplex, machine()),
            "0, 1, 16, 17 on 0; 4, 5, 20, 21 on 1; 6, 7, 22, 23 on 1; 12, 13, 28, 29 on 3");
  io::Topology topology = machine();
  topology.device_nodes = {0, 0, 0};
  EXPECT_EQ(bound(NumaMode::CoreComplex, topology, 3),
            "0, 1, 16, 17 on 0; 2, 3, 18, 19 on 0; 0, 1, 16, 17 on 0");
}

TEST(NumaBindings, ByCoreComplexPreferTheLargest) {
  io::Topology topology = machine_with({0, 2, 3, 18});
  topology.device_nodes = {0, 0};
  EXPECT_EQ(bound(NumaMode::CoreComplex, topology, 2), "2, 3, 18 on 0; 0 on 0");
}

TEST(NumaBindings, ByCoreComplexTakeTheNodeIfCachesAreNotKnown) {
  io::Topology topology = machine();
  for (io::Cpu& cpu : topology.cpus) cpu.cache = -1;
  EXPECT_EQ(bound(NumaMode::CoreComplex, topology, 1), "0-3, 16-19 on 0");
}

TEST(NumaBindings, TakeOnlyWhatWeMayUse) {
  const io::Topology topology = machine_with({1, 2, 3, 17, 5, 8});
  EXPECT_EQ(bound(NumaMode::Node, topology, 2), "1-3, 17 on 0; 5 on 1");
  EXPECT_EQ(bound(NumaMode::Exclusive, topology, 1), "1-3, 17 on 0");
  // Nothing of its node is left, but something of its socket.
  EXPECT_EQ(bound(NumaMode::Socket, topology),
            "1-3, 5, 17 on 0, 1; 1-3, 5, 17 on 0, 1; "
            "1-3, 5, 17 on 0, 1; 8 on 2");
}

TEST(NumaBindings, AreRefusedWithoutACpuNearby) {
  const auto bindings = numa_bindings(NumaMode::Node, machine_with({0, 1, 2, 5}), 4);
  ASSERT_FALSE(bindings);
  EXPECT_EQ(bindings.error().kind, ErrorKind::Refused);
  EXPECT_THAT(bindings.error().message, HasSubstr("cannot bind local rank 3"));
  EXPECT_THAT(bindings.error().message, HasSubstr("no CPU of NUMA node 3, only 0-2, 5."));
}

TEST(NumaBindings, NeedAGpuForEachWorker) {
  const auto bindings = numa_bindings(NumaMode::Node, machine(), 5);
  ASSERT_FALSE(bindings);
  EXPECT_EQ(bindings.error().kind, ErrorKind::InvalidArgument);
  EXPECT_THAT(bindings.error().message, HasSubstr("local rank 4"));
  EXPECT_THAT(bindings.error().message, HasSubstr("only 4 GPUs are visible"));
  io::Topology topology = machine();
  topology.device_nodes = {};
  EXPECT_THAT(bound(NumaMode::Node, topology), HasSubstr("no GPU is visible"));
}

TEST(NumaBindings, NeedToKnowWhereTheGpuIs) {
  io::Topology topology = machine();
  topology.device_nodes = {0, -1};
  EXPECT_THAT(bound(NumaMode::Socket, topology, 2), HasSubstr("is not known"));
}

TEST(ParseNumaMode, KnowsTheFour) {
  EXPECT_EQ(parse_numa_mode("node"), NumaMode::Node);
  EXPECT_EQ(parse_numa_mode("socket"), NumaMode::Socket);
  EXPECT_EQ(parse_numa_mode("exclusive"), NumaMode::Exclusive);
  EXPECT_EQ(parse_numa_mode("core-complex"), NumaMode::CoreComplex);
  const auto other = parse_numa_mode("core_complex");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("socket, exclusive or core-complex"));
}

}  // namespace
}  // namespace regroup::runtime
