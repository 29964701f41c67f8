#include "wire/text/agent_event.h"

#include <gtest/gtest.h>

namespace regroup::wire {
namespace {

EventRecord rendezvous() {
  return {.state = "RENDEZVOUS",
          .run_id = "job",
          .role = "default",
          .host = "node-1",
          .rendezvous_backend = "c10d",
          .entry_point = "python",
          .took = 1500us};
}

TEST(AgentEvent, HasTorchrunsKeysInTorchrunsOrder) {
  EXPECT_EQ(encode_event(rendezvous()),
            R"({"name": "torchelastic.worker.status.RENDEZVOUS", "source": "AGENT", )"
            R"("timestamp": 0, "metadata": {"run_id": "job", "global_rank": null, )"
            R"("group_rank": null, "worker_id": null, "role": "default", "hostname": "node-1", )"
            R"("state": "RENDEZVOUS", "total_run_time": 0, "rdzv_backend": "c10d", )"
            R"("raw_error": null, "metadata": )"
            R"("{\"group_world_size\": null, \"entry_point\": \"python\"}", )"
            R"("agent_restarts": 0, "duration_ms": 1.5}})");
}

TEST(AgentEvent, OfAWorkerTellsItsRanksInListsOfOne) {
  EventRecord event = rendezvous();
  event.state = "FAILED";
  event.source = EventRecord::Source::Worker;
  event.time_millis = 1794795371123;
  event.group_rank = 1;
  event.group_world_size = 2;
  event.total_run_seconds = 5;
  event.error = R"({"message": "<NONE>"})";
  event.restarts = 3;
  event.took.reset();
  event.worker = EventRecord::Worker{.local_rank = 1,
                                     .global_rank = 5,
                                     .role_rank = 4,
                                     .role_world_size = 8,
                                     .pid = 4711,
                                     .exit_code = -9};
  EXPECT_EQ(encode_event(event),
            R"({"name": "torchelastic.worker.status.FAILED", "source": "WORKER", )"
            R"("timestamp": 1794795371123, "metadata": {"run_id": "job", "global_rank": 5, )"
            R"("group_rank": 1, "worker_id": "4711", "role": "default", "hostname": "node-1", )"
            R"("state": "FAILED", "total_run_time": 5, "rdzv_backend": "c10d", )"
            R"("raw_error": "{\"message\": \"<NONE>\"}", "metadata": )"
            R"("{\"group_world_size\": 2, \"entry_point\": \"python\", \"local_rank\": [1], )"
            R"(\"role_rank\": [4], \"role_world_size\": [8], \"exit_code\": [-9], )"
            R"(\"worker_pid\": [4711]}", "agent_restarts": 3, "duration_ms": null}})");
}

TEST(AgentEvent, OfAWorkerThatHasNotFailedKeepsItsCodeAndPidToItself) {
  EventRecord event = rendezvous();
  event.source = EventRecord::Source::Worker;
  event.worker = EventRecord::Worker{.pid = 4711};
  EXPECT_NE(encode_event(event).find(R"(\"exit_code\": [null], \"worker_pid\": [null])"),
            std::string::npos);
}

TEST(AgentEvent, IsOneLineWhateverIsInIt) {
  EventRecord event = rendezvous();
  event.error = "line\nline\xff\x1b[0m";
  event.entry_point = "\"\n";
  const std::string line = encode_event(event);
  for (const char c : line) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << line;
  EXPECT_NE(line.find(R"("raw_error": "line\nline\ufffd\u001b[0m")"), std::string::npos) << line;
}

TEST(AgentEvent, AMetricHasTheFieldsOfTorchrunsMetricData) {
  EXPECT_EQ(encode_metric(
                {.name = "workers.default.run_total", .value = 1, .time_micros = 1794795371123456}),
            R"({"timestamp": 1794795371.123456, "group_name": "torchelastic", )"
            R"("name": "workers.default.run_total", "value": 1})");
}

TEST(AgentEvent, AStepOfTheRendezvousHasTheFieldsOfTorchrunsRdzvEvent) {
  RendezvousRecord record{.name = "dynamic_rendezvous.py:DynamicRendezvousHandler.next_rendezvous",
                          .run_id = "job-7",
                          .message = "joined",
                          .host = "n1",
                          .pid = 4711,
                          .rank = 3,
                          .local_id = 5};
  EXPECT_EQ(encode_rendezvous_event(record),
            R"({"name": "dynamic_rendezvous.py:DynamicRendezvousHandler.next_rendezvous", )"
            R"("run_id": "job-7", "message": "joined", "hostname": "n1", "pid": 4711, )"
            R"("node_state": "RUNNING", "master_endpoint": "", "rank": 3, "local_id": 5, )"
            R"("error_trace": ""})");
  record.state = RendezvousRecord::NodeState::Failed;
  record.rank.reset();
  record.error = "no\nstore";
  EXPECT_NE(encode_rendezvous_event(record).find(
                R"("node_state": "FAILED", "master_endpoint": "", "rank": null, "local_id": 5, )"
                R"("error_trace": "no\nstore")"),
            std::string::npos);
}

TEST(AgentEvent, OfNoErrorFileTorchrunMakesUpTheData) {
  EXPECT_EQ(error_data_of(-15), R"({"message": "<NONE>"})");
  EXPECT_EQ(error_data_of(3),
            R"({"message": "<NONE>", "errorTraits": {"category": "system_terminated_error", )"
            R"("retryability": "False"}})");
}

}  // namespace
}  // namespace regroup::wire
