#include "runtime/workers/worker_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace regroup::runtime {
namespace {

using testing::HasSubstr;

WorkerPlace place() {
  WorkerPlace place;
  place.local_rank = 1;
  place.local_world_size = 2;
  place.rank = 5;
  place.world_size = 8;
  place.group_rank = 2;
  place.group_world_size = 4;
  place.role_name = "trainer";
  place.role_rank = 3;
  place.role_world_size = 6;
  place.master_addr = "node0";
  place.master_port = 29500;
  place.run_id = "job 7";
  place.restart_count = 1;
  place.max_restarts = 3;
  return place;
}

std::string visible(const Environment& ours, int local_rank) {
  WorkerPlace virtual_place = place();
  virtual_place.virtual_local_rank = true;
  virtual_place.local_rank = local_rank;
  const auto theirs = worker_environment(ours, virtual_place);
  if (!theirs) return theirs.error().message;
  EXPECT_EQ(theirs->at("LOCAL_RANK"), "0");
  return theirs->at("CUDA_VISIBLE_DEVICES");
}

TEST(WorkerEnvironment, IsOursAndWhatTorchrunAdds) {
  const Environment expected = {
      {"HOME", "/root"},
      {"RANK", "5"},
      {"WORLD_SIZE", "8"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"GROUP_RANK", "2"},
      {"GROUP_WORLD_SIZE", "4"},
      {"ROLE_NAME", "trainer"},
      {"ROLE_RANK", "3"},
      {"ROLE_WORLD_SIZE", "6"},
      {"MASTER_ADDR", "node0"},
      {"MASTER_PORT", "29500"},
      {"TORCHELASTIC_RUN_ID", "job 7"},
      {"TORCHELASTIC_RESTART_COUNT", "1"},
      {"TORCHELASTIC_MAX_RESTARTS", "3"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"OMP_NUM_THREADS", "1"},
  };
  EXPECT_EQ(worker_environment({{"HOME", "/root"}}, place()), expected);
}

TEST(WorkerEnvironment, ReplacesWhatAnOuterLauncherLeft) {
  const auto theirs =
      worker_environment({{"RANK", "77"}, {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGUSR1"}}, place());
  ASSERT_TRUE(theirs);
  EXPECT_EQ(theirs->at("RANK"), "5");
  EXPECT_EQ(theirs->at("TORCHELASTIC_SIGNALS_TO_HANDLE"), "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
}

TEST(WorkerEnvironment, SpellsTheStoreAsPythonDoes) {
  WorkerPlace alone = place();
  alone.use_agent_store = false;
  EXPECT_EQ(worker_environment({}, alone)->at("TORCHELASTIC_USE_AGENT_STORE"), "False");
}

TEST(WorkerEnvironment, KeepsTheUsersNcclSetting) {
  for (const char* value : {"3", ""})
    EXPECT_EQ(worker_environment({{"TORCH_NCCL_ASYNC_ERROR_HANDLING", value}}, place())
                  ->at("TORCH_NCCL_ASYNC_ERROR_HANDLING"),
              value);
}

TEST(WorkerEnvironment, LimitsThreadsOnlyOfSeveralWorkersAndIfTheUserDidNot) {
  EXPECT_TRUE(limits_omp_threads({}, 2));
  EXPECT_FALSE(limits_omp_threads({}, 1));
  for (const char* value : {"12", ""}) {
    const Environment ours = {{"OMP_NUM_THREADS", value}};
    EXPECT_FALSE(limits_omp_threads(ours, 2));
    EXPECT_EQ(worker_environment(ours, place())->at("OMP_NUM_THREADS"), value);
  }
  WorkerPlace alone = place();
  alone.local_rank = 0;
  alone.local_world_size = 1;
  EXPECT_EQ(worker_environment({}, alone)->count("OMP_NUM_THREADS"), 0u);
}

TEST(WorkerEnvironment, LeavesGpusAloneWithoutAVirtualLocalRank) {
  EXPECT_EQ(worker_environment({}, place())->count("CUDA_VISIBLE_DEVICES"), 0u);
  EXPECT_EQ(
      worker_environment({{"CUDA_VISIBLE_DEVICES", "3"}}, place())->at("CUDA_VISIBLE_DEVICES"),
      "3");
}

TEST(WorkerEnvironment, ShowsOneGpuUnderAVirtualLocalRank) {
  EXPECT_EQ(visible({}, 1), "1");
  EXPECT_EQ(visible({{"CUDA_VISIBLE_DEVICES", "4, 6 ,7"}}, 1), "6");
  EXPECT_EQ(visible({{"CUDA_VISIBLE_DEVICES", "GPU-aa,MIG-bb"}}, 1), "MIG-bb");
  EXPECT_EQ(visible({{"CUDA_VISIBLE_DEVICES", ""}}, 0), "");
}

TEST(WorkerEnvironment, RefusesAListWithTooFewGpus) {
  EXPECT_THAT(visible({{"CUDA_VISIBLE_DEVICES", "4"}}, 1),
              HasSubstr("local rank 1 a GPU of its own: CUDA_VISIBLE_DEVICES=4 lists 1. List at "
                        "least 2"));
  EXPECT_THAT(visible({{"CUDA_VISIBLE_DEVICES", ""}}, 1), HasSubstr("local rank 1"));
}

}  // namespace
}  // namespace regroup::runtime
