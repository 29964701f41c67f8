#include "runtime/workers/process_count.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace regroup::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;

io::Devices machine(int cpus, std::size_t gpus) {
  io::Devices devices;
  for (int cpu = 0; cpu < cpus; ++cpu) devices.cpus.push_back(cpu);
  devices.gpus.resize(gpus);
  devices.gpus_present = gpus;
  return devices;
}

std::string refusal(const std::string& nproc, const io::Devices& devices) {
  const auto count = count_workers(nproc, devices);
  if (count) return "none: " + std::to_string(*count);
  EXPECT_EQ(count.error().kind, ErrorKind::InvalidArgument);
  return count.error().message;
}

TEST(CountWorkers, TakesANumberAsItIs) {
  EXPECT_EQ(count_workers("1", machine(4, 8)), 1);
  EXPECT_EQ(count_workers("16", machine(4, 8)), 16);
  EXPECT_EQ(count_workers(" 8\n", machine(4, 8)), 8);
}

TEST(CountWorkers, CountsDevices) {
  EXPECT_EQ(count_workers("cpu", machine(4, 8)), 4);
  EXPECT_EQ(count_workers("gpu", machine(4, 8)), 8);
}

TEST(CountWorkers, PrefersGpusIfItMayChoose) {
  EXPECT_EQ(count_workers("auto", machine(4, 8)), 8);
  EXPECT_EQ(count_workers("auto", machine(4, 0)), 4);
}

TEST(CountWorkers, SaysThatThereAreNoGpus) {
  EXPECT_THAT(refusal("gpu", machine(4, 0)), HasSubstr("no GPU was found"));
}

TEST(CountWorkers, SaysWhatHidesTheGpus) {
  io::Devices devices = machine(4, 0);
  devices.gpus_present = 8;
  devices.narrowed_by = "CUDA_VISIBLE_DEVICES=-1";
  EXPECT_THAT(refusal("gpu", devices),
              HasSubstr("8 GPUs are here, but CUDA_VISIBLE_DEVICES=-1 hides them all"));
  devices.gpus_present = 1;
  EXPECT_THAT(refusal("gpu", devices),
              HasSubstr("1 GPU is here, but CUDA_VISIBLE_DEVICES=-1 hides it."));
}

TEST(CountWorkers, RefusesNoneAtAll) {
  for (const char* nproc : {"0", "-1"})
    EXPECT_THAT(refusal(nproc, machine(4, 8)), HasSubstr("at least 1 is needed"));
}

TEST(CountWorkers, RefusesWhatItCannotCount) {
  for (const char* nproc :
       {"", " ", "xpu", "cuda", "2.0", "2x", "GPU", "99999999999999999999", "\n"})
    EXPECT_THAT(refusal(nproc, machine(4, 8)),
                AllOf(HasSubstr("--nproc-per-node="), HasSubstr("Pass a number, cpu, gpu or auto")))
        << nproc;
  EXPECT_THAT(refusal("xpu", machine(4, 8)), HasSubstr("Intel"));
}

TEST(CountWorkers, FindsAtLeastOneCpuHere) {
  const auto count = count_workers("cpu");
  ASSERT_TRUE(count);
  EXPECT_EQ(static_cast<std::size_t>(*count), io::allowed_cpus().size());
  EXPECT_GE(*count, 1);
}

}  // namespace
}  // namespace regroup::runtime
