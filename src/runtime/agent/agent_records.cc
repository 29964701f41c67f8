#include "runtime/agent/agent_records.h"

#include <utility>
#include <variant>

#include "io/loop/clock.h"
#include "io/net/interfaces.h"
#include "io/process/signals.h"
#include "wire/text/agent_event.h"

namespace regroup {

std::string to_json(const EventRecord& event) { return wire::encode_event(event); }
std::string to_json(const RendezvousRecord& record) {
  return wire::encode_rendezvous_event(record);
}
std::string to_json(const MetricRecord& metric) { return wire::encode_metric(metric); }

namespace runtime {

using namespace core::agent;

namespace {

std::string entry_point_of(const WorkerSpec& spec) {
  if (!spec.entry_point.empty() || spec.command.empty()) return spec.entry_point;
  return spec.command.front().substr(spec.command.front().rfind('/') + 1);
}

std::string why_ended(Ending ending, const RunResult& result) {
  switch (ending) {
    case Ending::Succeeded:
    case Ending::NotNeeded:
      return "";
    case Ending::Failed:
      return result.cause_elsewhere;
    case Ending::Signalled:
      return "ended by " + io::signal_name(result.signal);
    case Ending::CouldNotJoin:
    case Ending::CouldNotStart:
      return result.error.message;
    case Ending::LeftBehind:
      return "workers left processes that cannot be killed";
  }
  return "";
}

}  // namespace

AgentRecords::AgentRecords(const AgentOptions& options, Tell tell)
    : local_world_size_(options.spec.local_world_size),
      tell_(std::move(tell)),
      recorder_({.run_id = options.rendezvous.run_id,
                 .role = options.spec.role,
                 .host = io::host_name(),
                 .rendezvous_backend = options.rendezvous.backend,
                 .entry_point = entry_point_of(options.spec),
                 .max_restarts = options.spec.max_restarts}) {}

void AgentRecords::joining(int restarts, int remaining_restarts) {
  recorder_.joining(restarts, remaining_restarts, io::now());
}

void AgentRecords::joined(const JoinedRound& round) {
  RecordedRound recorded{.group_rank = round.info.rank,
                         .group_world_size = round.info.world_size,
                         .took_to_meet = round.took_to_meet,
                         .took_to_assign = round.took_to_assign};
  recorded.workers.reserve(static_cast<std::size_t>(local_world_size_));
  for (int rank = 0; rank < local_world_size_; ++rank)
    recorded.workers.push_back(
        {.local_rank = rank,
         .global_rank = static_cast<int>(round.ranks.base_global_rank) + rank,
         .role_rank = static_cast<int>(round.ranks.base_role_rank) + rank,
         .role_world_size = static_cast<int>(round.ranks.role_world_size)});
  tell(recorder_.joined(std::move(recorded)));
}

void AgentRecords::join_failed(std::optional<Duration> took_to_meet) {
  tell(recorder_.join_failed(took_to_meet, io::now()));
}

void AgentRecords::starting() { recorder_.starting(io::now()); }

void AgentRecords::started(const std::map<int, pid_t>& pids) {
  std::vector<std::int64_t> by_rank;
  by_rank.reserve(pids.size());
  for (const auto& [rank, pid] : pids) by_rank.push_back(pid);
  tell(recorder_.started(by_rank, io::now()));
}

void AgentRecords::start_failed() { tell(recorder_.start_failed(io::now())); }

void AgentRecords::stopping() { recorder_.stopping(io::now()); }

void AgentRecords::group_over(GroupEnd end, bool signalled) {
  tell(recorder_.group_over(end, signalled, io::now()));
}

void AgentRecords::watchdog(EventRecord::Watchdog what) {
  tell(recorder_.watchdog(std::move(what)));
}

void AgentRecords::checking_in() { recorder_.checking_in(io::now()); }

void AgentRecords::checked_in() { tell(recorder_.checked_in(io::now())); }

void AgentRecords::ended(Ending ending, const RunResult& result) {
  RecordedEnd end{.ending = ending,
                  .failed_elsewhere = !result.cause && !result.cause_elsewhere.empty(),
                  .why = why_ended(ending, result)};
  end.failures.reserve(result.failures.size());
  for (const auto& [rank, failure] : result.failures)
    end.failures.push_back(
        {.global_rank = rank,
         .exit_code = failure.exit_code,
         .error = failure.error ? failure.error->raw : wire::error_data_of(failure.exit_code)});
  tell(recorder_.ended(end, io::now()));
}

void AgentRecords::tell(Records records) const {
  const std::int64_t micros = io::utc_micros();
  for (Record& record : records) {
    if (auto* event = std::get_if<EventRecord>(&record)) {
      event->time_millis = micros / 1000;
      tell_(std::move(*event));
    } else if (auto* metric = std::get_if<MetricRecord>(&record)) {
      metric->time_micros = micros;
      tell_(std::move(*metric));
    }
  }
}

}  // namespace runtime
}  // namespace regroup
