#include "core/agent/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace regroup::core::agent {
namespace {

using testing::ElementsAre;

Instant at(Duration since) { return Instant{} + since; }

// An event as "[rank ]STATE[ duration]" with its source before it, a metric as "name=value".
std::string in_short(const Record& record) {
  if (const auto* metric = std::get_if<MetricRecord>(&record))
    return (metric->group == "torchelastic" ? "" : metric->group + ":") + metric->name + "=" +
           std::to_string(metric->value);
  const auto& event = std::get<EventRecord>(record);
  std::string text = event.source == EventRecord::Source::Agent
                         ? "AGENT "
                         : "WORKER " + std::to_string(event.worker->global_rank) + " ";
  text += event.state;
  if (event.took) text += " " + std::to_string(event.took->count() / 1'000'000) + "ms";
  return text;
}

std::vector<std::string> in_short(const Records& records) {
  std::vector<std::string> lines;
  lines.reserve(records.size());
  for (const Record& record : records) lines.push_back(in_short(record));
  return lines;
}

std::vector<EventRecord> events_of(const Records& records) {
  std::vector<EventRecord> events;
  for (const Record& record : records)
    if (const auto* event = std::get_if<EventRecord>(&record)) events.push_back(*event);
  return events;
}

std::vector<std::string> names_of_events(const Records& records) {
  std::vector<std::string> names;
  for (const EventRecord& event : events_of(records)) names.push_back(in_short(Record(event)));
  return names;
}

std::optional<std::int64_t> value_of(const Records& records, const std::string& name) {
  std::optional<std::int64_t> value;
  for (const Record& record : records)
    if (const auto* metric = std::get_if<MetricRecord>(&record); metric && metric->name == name)
      value = metric->value;
  return value;
}

Recorder recorder(int max_restarts = 0) {
  return Recorder({.run_id = "job",
                   .role = "trainer",
                   .host = "node-1",
                   .rendezvous_backend = "c10d",
                   .entry_point = "python",
                   .max_restarts = max_restarts});
}

RecordedRound round_of(int workers, std::int64_t group_rank = 0, int base = 0) {
  RecordedRound round{
      .group_rank = group_rank, .group_world_size = 2, .took_to_meet = 20ms, .took_to_assign = 3ms};
  for (int rank = 0; rank < workers; ++rank)
    round.workers.push_back({.local_rank = rank,
                             .global_rank = base + rank,
                             .role_rank = base + rank,
                             .role_world_size = 4});
  return round;
}

// Workers that were started, with pids 100, 101, …
Recorder running(int max_restarts, int workers = 2) {
  Recorder made = recorder(max_restarts);
  made.joining(0, max_restarts, at(0s));
  made.joined(round_of(workers));
  made.starting(at(1s));
  std::vector<std::int64_t> pids;
  pids.reserve(static_cast<std::size_t>(workers));
  for (int rank = 0; rank < workers; ++rank) pids.push_back(100 + rank);
  made.started(pids, at(1s));
  return made;
}

TEST(Recorder, RecordsARunThatSucceedsAsTheOriginalDoes) {
  Recorder one = recorder();
  one.joining(0, 0, at(0ms));
  EXPECT_THAT(
      in_short(one.joined(round_of(2))),
      ElementsAre("AGENT RENDEZVOUS 20ms", "SimpleElasticAgent._assign_worker_ranks.success=1",
                  "SimpleElasticAgent._assign_worker_ranks.duration.ms=3",
                  "AGENT ASSIGN_WORKER_RANKS 3ms", "SimpleElasticAgent._rendezvous.success=1",
                  "SimpleElasticAgent._rendezvous.duration.ms=23",
                  "regroup:phase.rendezvous.ms=23"));
  one.starting(at(25ms));
  EXPECT_THAT(in_short(one.started({100, 101}, at(30ms))),
              ElementsAre("LocalElasticAgent._start_workers.success=1",
                          "LocalElasticAgent._start_workers.duration.ms=5",
                          "regroup:phase.start.ms=5", "WORKER 0 START", "WORKER 1 START",
                          "SimpleElasticAgent._initialize_workers.success=1",
                          "SimpleElasticAgent._initialize_workers.duration.ms=30",
                          "workers.trainer.remaining_restarts=0", "workers.trainer.healthy=1"));
  EXPECT_THAT(in_short(one.group_over(GroupEnd::Succeeded, false, at(2030ms))),
              ElementsAre("regroup:phase.run.ms=2000", "workers.trainer.remaining_restarts=0",
                          "workers.trainer.succeeded=1"));
  one.checking_in(at(2030ms));
  EXPECT_THAT(in_short(one.checked_in(at(2530ms))),
              ElementsAre("regroup:phase.exit_barrier.ms=500"));
  EXPECT_THAT(in_short(one.ended({.ending = Ending::Succeeded}, at(2530ms))),
              ElementsAre("workers.trainer.flakiness=0", "workers.trainer.run_total=1",
                          "workers.trainer.run_success_with_retries=0",
                          "workers.trainer.run_success_no_retries=1",
                          "workers.trainer.run_failed_with_retries=0",
                          "workers.trainer.run_failed_no_retries=0", "WORKER 0 SUCCEEDED",
                          "WORKER 1 SUCCEEDED", "SimpleElasticAgent.run.success=1",
                          "SimpleElasticAgent.run.duration.ms=2530", "AGENT SUCCEEDED"));
}

TEST(Recorder, FillsInWhatIsKnownOfTheRunAndTheWorker) {
  Recorder one = recorder(3);
  one.joining(0, 3, at(0s));
  const EventRecord met = events_of(one.joined(round_of(1, 1, 2))).front();
  EXPECT_EQ(met.run_id, "job");
  EXPECT_EQ(met.role, "trainer");
  EXPECT_EQ(met.host, "node-1");
  EXPECT_EQ(met.rendezvous_backend, "c10d");
  EXPECT_EQ(met.entry_point, "python");
  EXPECT_EQ(met.group_rank, std::nullopt);  // The rank is what the rendezvous is about to tell.
  EXPECT_EQ(met.group_world_size, std::nullopt);
  EXPECT_EQ(met.worker, std::nullopt);
  EXPECT_EQ(met.error, std::nullopt);
  const EventRecord start = events_of(one.started({77}, at(0s))).front();
  EXPECT_EQ(start.group_rank, 1);
  EXPECT_EQ(start.group_world_size, 2);
  EXPECT_EQ(start.took, std::nullopt);
  EXPECT_EQ(
      start.worker,
      (EventRecord::Worker{
          .local_rank = 0, .global_rank = 2, .role_rank = 2, .role_world_size = 4, .pid = 77}));
  one.group_over(GroupEnd::Succeeded, false, at(61s));
  const auto last = events_of(one.ended({.ending = Ending::Succeeded}, at(61900ms)));
  for (const EventRecord& event : last) EXPECT_EQ(event.total_run_seconds, 61);
  EXPECT_EQ(start.total_run_seconds, 0);
}

TEST(Recorder, ARestartIsMeasuredFromTheFailureOn) {
  Recorder one = running(2);
  one.stopping(at(5s));
  one.stopping(at(6s));  // Only the first one counts.
  EXPECT_THAT(in_short(one.group_over(GroupEnd::Failed, false, at(8s))),
              ElementsAre("regroup:phase.run.ms=4000", "regroup:phase.stop.ms=3000",
                          "workers.trainer.remaining_restarts=2", "workers.trainer.failed=1",
                          "LocalElasticAgent._stop_workers.success=1",
                          "LocalElasticAgent._stop_workers.duration.ms=3000"));
  one.joining(1, 1, at(8s));
  const auto met = events_of(one.joined(round_of(2, 1)));
  EXPECT_EQ(met.front().restarts, 1);
  EXPECT_EQ(met.front().group_rank, 0);  // Still that of the round before.
  one.starting(at(9s));
  const Records started = one.started({200, 201}, at(10s));
  EXPECT_EQ(value_of(started, "SimpleElasticAgent._initialize_workers.duration.ms"), 2000);
  EXPECT_EQ(value_of(started, "SimpleElasticAgent._restart_workers.success"), 1);
  EXPECT_EQ(value_of(started, "SimpleElasticAgent._restart_workers.duration.ms"), 5000);
  EXPECT_EQ(value_of(started, "workers.trainer.remaining_restarts"), 1);
  EXPECT_EQ(events_of(started).front().group_rank, 1);
  EXPECT_EQ(events_of(started).front().worker->pid, 200);
  one.group_over(GroupEnd::Succeeded, false, at(12s));
  const Records ended = one.ended({.ending = Ending::Succeeded}, at(12s));
  EXPECT_EQ(value_of(ended, "workers.trainer.run_success_with_retries"), 1);
  EXPECT_EQ(value_of(ended, "workers.trainer.run_success_no_retries"), 0);
  EXPECT_EQ(value_of(ended, "workers.trainer.flakiness"), 33);
}

TEST(Recorder, FlakinessIsTheOriginals) {
  Recorder one = running(10);
  for (int remaining = 9; remaining >= 3; --remaining) {
    one.group_over(GroupEnd::Failed, false, at(2s));
    one.joining(10 - remaining, remaining, at(2s));
    one.joined(round_of(2));
    one.started({1, 2}, at(2s));
  }
  one.group_over(GroupEnd::Succeeded, false, at(3s));
  EXPECT_EQ(value_of(one.ended({.ending = Ending::Succeeded}, at(3s)), "workers.trainer.flakiness"),
            63);
}

TEST(Recorder, NamesWhoFailedAndWhoWasOnlyStopped) {
  Recorder one = running(0, 3);
  one.stopping(at(2s));
  one.group_over(GroupEnd::Failed, false, at(2s));
  const Records records =
      one.ended({.ending = Ending::Failed,
                 .failures = {{.global_rank = 1, .exit_code = 3, .error = "{1}"},
                              {.global_rank = 2, .exit_code = -15}}},
                at(2s));
  // The agent itself has done what it could.
  EXPECT_THAT(names_of_events(records), ElementsAre("WORKER 0 TERMINATED", "WORKER 1 FAILED",
                                                    "WORKER 2 FAILED", "AGENT SUCCEEDED"));
  const auto events = events_of(records);
  EXPECT_EQ(events[0].worker->exit_code, std::nullopt);
  EXPECT_EQ(events[0].error, std::nullopt);
  EXPECT_EQ(events[1].worker->exit_code, 3);
  EXPECT_EQ(events[1].error, "{1}");
  EXPECT_EQ(events[2].worker->exit_code, -15);
  EXPECT_EQ(value_of(records, "workers.trainer.run_failed_no_retries"), 1);
  EXPECT_EQ(value_of(records, "workers.trainer.run_failed_with_retries"), 0);
  EXPECT_EQ(value_of(records, "workers.trainer.flakiness"), 100);
  EXPECT_EQ(value_of(records, "SimpleElasticAgent.run.success"), 1);
}

TEST(Recorder, AChangeOfMembersIsNoFailure) {
  Recorder one = running(1);
  one.stopping(at(2s));
  const Records over = one.group_over(GroupEnd::Stopped, false, at(3s));
  EXPECT_EQ(value_of(over, "workers.trainer.failed"), std::nullopt);
  EXPECT_EQ(value_of(over, "LocalElasticAgent._stop_workers.duration.ms"), 1000);
  one.joining(0, 1, at(3s));
  EXPECT_EQ(events_of(one.joined(round_of(2))).front().restarts, 0);
  EXPECT_EQ(value_of(one.started({1, 2}, at(4s)), "SimpleElasticAgent._restart_workers.success"),
            1);
}

TEST(Recorder, ASignalIsAFailureOfTheAgentAndNothingIsSaidOfItsWorkers) {
  Recorder one = running(1);
  one.stopping(at(2s));
  EXPECT_THAT(in_short(one.group_over(GroupEnd::Stopped, true, at(3s))),
              ElementsAre("regroup:phase.run.ms=1000", "regroup:phase.stop.ms=1000"));
  const Records records = one.ended({.ending = Ending::Signalled, .why = "SIGTERM"}, at(3s));
  EXPECT_THAT(in_short(records),
              ElementsAre("SimpleElasticAgent.run.failure=1",
                          "SimpleElasticAgent.run.duration.ms=3000", "AGENT FAILED"));
  EXPECT_EQ(events_of(records).front().error, "SIGTERM");
}

TEST(Recorder, ANodeThatCannotJoinHasARendezvousAndAFailure) {
  Recorder one = recorder();
  one.joining(0, 0, at(0s));
  EXPECT_THAT(in_short(one.join_failed({}, at(4s))),
              ElementsAre("AGENT RENDEZVOUS 4000ms", "SimpleElasticAgent._rendezvous.failure=1",
                          "SimpleElasticAgent._rendezvous.duration.ms=4000",
                          "regroup:phase.rendezvous.ms=4000",
                          "SimpleElasticAgent._initialize_workers.failure=1",
                          "SimpleElasticAgent._initialize_workers.duration.ms=4000"));
  const Records records = one.ended({.ending = Ending::CouldNotJoin, .why = "nobody came"}, at(4s));
  EXPECT_THAT(names_of_events(records), ElementsAre("AGENT FAILED"));
  EXPECT_EQ(events_of(records).front().error, "nobody came");
}

TEST(Recorder, NodesThatMeetAndCannotAgreeOnRanksHaveAnAssignment) {
  Recorder one = recorder();
  one.joining(0, 0, at(0s));
  EXPECT_THAT(
      in_short(one.join_failed(Duration(3s), at(4s))),
      ElementsAre("AGENT RENDEZVOUS 3000ms", "SimpleElasticAgent._assign_worker_ranks.failure=1",
                  "SimpleElasticAgent._assign_worker_ranks.duration.ms=1000",
                  "AGENT ASSIGN_WORKER_RANKS 1000ms", "SimpleElasticAgent._rendezvous.failure=1",
                  "SimpleElasticAgent._rendezvous.duration.ms=4000",
                  "regroup:phase.rendezvous.ms=4000",
                  "SimpleElasticAgent._initialize_workers.failure=1",
                  "SimpleElasticAgent._initialize_workers.duration.ms=4000"));
}

// With --max-restarts 1/10m, say: there may be more of them than the limit.
TEST(Recorder, RestartsAreCountedPastALimitForSomeTime) {
  Recorder one = running(1);
  for (int restart = 1; restart <= 3; ++restart) {
    one.group_over(GroupEnd::Failed, false, at(2s));
    one.joining(restart, 0, at(2s));
    EXPECT_EQ(events_of(one.joined(round_of(2))).front().restarts, restart);
  }
}

TEST(Recorder, AJoinThatFailsAfterARestartSaysNothingOfTheWorkersBefore) {
  Recorder one = running(1);
  one.stopping(at(2s));
  one.group_over(GroupEnd::Failed, false, at(2s));
  one.joining(1, 0, at(2s));
  const Records failed = one.join_failed({}, at(3s));
  EXPECT_EQ(value_of(failed, "SimpleElasticAgent._restart_workers.failure"), 1);
  EXPECT_EQ(value_of(failed, "SimpleElasticAgent._restart_workers.success"), std::nullopt);
  const Records records = one.ended(
      {.ending = Ending::Failed, .failed_elsewhere = true, .why = "rank 3 failed"}, at(3s));
  EXPECT_THAT(names_of_events(records), ElementsAre("AGENT FAILED"));
  EXPECT_EQ(value_of(records, "workers.trainer.run_total"), std::nullopt);
}

TEST(Recorder, AFailureElsewhereTerminatesOurWorkers) {
  Recorder one = running(0);
  one.stopping(at(2s));
  one.group_over(GroupEnd::Stopped, false, at(3s));
  const Records records = one.ended(
      {.ending = Ending::Failed, .failed_elsewhere = true, .why = "rank 3 failed"}, at(3s));
  EXPECT_THAT(names_of_events(records),
              ElementsAre("WORKER 0 TERMINATED", "WORKER 1 TERMINATED", "AGENT FAILED"));
  EXPECT_EQ(value_of(records, "workers.trainer.run_failed_no_retries"), 1);
}

TEST(Recorder, WorkersThatCannotBeStartedHaveNoStart) {
  Recorder one = recorder();
  one.joining(0, 0, at(0s));
  one.joined(round_of(2));
  one.starting(at(1s));
  EXPECT_THAT(
      in_short(one.start_failed(at(2s))),
      ElementsAre("LocalElasticAgent._start_workers.failure=1",
                  "LocalElasticAgent._start_workers.duration.ms=1000",
                  "regroup:phase.start.ms=1000", "SimpleElasticAgent._initialize_workers.failure=1",
                  "SimpleElasticAgent._initialize_workers.duration.ms=2000"));
  EXPECT_THAT(names_of_events(one.ended({.ending = Ending::CouldNotStart}, at(2s))),
              ElementsAre("AGENT FAILED"));
}

TEST(Recorder, AWorkerThatCannotBeKilledIsAFailedStop) {
  Recorder one = running(1, 1);
  one.stopping(at(2s));
  const Records over = one.group_over(GroupEnd::Survived, false, at(3s));
  EXPECT_EQ(value_of(over, "LocalElasticAgent._stop_workers.failure"), 1);
  EXPECT_THAT(names_of_events(one.ended({.ending = Ending::LeftBehind}, at(3s))),
              ElementsAre("WORKER 0 TERMINATED", "AGENT FAILED"));
}

TEST(Recorder, ASpareThatIsNotNeededHasSucceeded) {
  Recorder one = recorder();
  one.joining(0, 0, at(0s));
  one.join_failed({}, at(4s));
  EXPECT_THAT(names_of_events(one.ended({.ending = Ending::NotNeeded}, at(4s))),
              ElementsAre("AGENT SUCCEEDED"));
}

}  // namespace
}  // namespace regroup::core::agent
