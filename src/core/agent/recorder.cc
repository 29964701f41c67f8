#include "core/agent/recorder.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace regroup::core::agent {
namespace {

using Source = EventRecord::Source;

// The original names its functions, and people have dashboards for them.
constexpr const char* kRun = "SimpleElasticAgent.run";
constexpr const char* kInitialize = "SimpleElasticAgent._initialize_workers";
constexpr const char* kRestart = "SimpleElasticAgent._restart_workers";
constexpr const char* kRendezvous = "SimpleElasticAgent._rendezvous";
constexpr const char* kAssign = "SimpleElasticAgent._assign_worker_ranks";
constexpr const char* kStart = "LocalElasticAgent._start_workers";
constexpr const char* kStop = "LocalElasticAgent._stop_workers";

std::int64_t whole_millis(Duration took) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool went_well(const RecordedEnd& end) {
  switch (end.ending) {
    case Ending::Succeeded:
    case Ending::NotNeeded:
      return true;
    case Ending::Failed:
      // The agent has done its work: it is the worker that failed. The original sees it so.
      return !end.failed_elsewhere;
    case Ending::Signalled:
    case Ending::CouldNotJoin:
    case Ending::CouldNotStart:
    case Ending::LeftBehind:
      return false;
  }
  return false;
}

bool has_outcome(Ending ending) {
  return ending == Ending::Succeeded || ending == Ending::Failed || ending == Ending::LeftBehind;
}

}  // namespace

Recorder::Recorder(Settings settings)
    : settings_(std::move(settings)), remaining_(settings_.max_restarts) {}

EventRecord Recorder::event(std::string state, Source source) const {
  EventRecord event{.state = std::move(state),
                    .source = source,
                    .run_id = settings_.run_id,
                    .role = settings_.role,
                    .host = settings_.host,
                    .rendezvous_backend = settings_.rendezvous_backend,
                    .entry_point = settings_.entry_point,
                    .restarts = restarts_,
                    .total_run_seconds = total_run_seconds_};
  if (in_round_) {
    event.group_rank = round_.group_rank;
    event.group_world_size = round_.group_world_size;
  }
  return event;
}

void Recorder::add_metric(Records& records, const std::string& name, std::int64_t value) const {
  records.emplace_back(
      MetricRecord{.name = "workers." + settings_.role + "." + name, .value = value});
}

void Recorder::add_state(Records& records, State state) const {
  add_metric(records, "remaining_restarts", remaining_);
  add_metric(records, lower_case(to_string(state)), 1);
}

void Recorder::add_call(Records& records, const std::string& name, bool succeeded, Duration took) {
  records.emplace_back(
      MetricRecord{.name = name + (succeeded ? ".success" : ".failure"), .value = 1});
  records.emplace_back(MetricRecord{.name = name + ".duration.ms", .value = whole_millis(took)});
}

void Recorder::add_phase(Records& records, const std::string& name, Duration took) {
  records.emplace_back(MetricRecord{
      .group = "regroup", .name = "phase." + name + ".ms", .value = whole_millis(took)});
}

void Recorder::joining(int restarts, int remaining_restarts, Instant now) {
  if (!run_began_) run_began_ = now;
  // The stop is part of the restart.
  restart_began_ = group_over_ ? std::optional(stop_began_.value_or(now)) : std::nullopt;
  remaining_ = remaining_restarts;
  restarts_ = restarts;
  join_began_ = now;
  stop_began_.reset();
  group_over_ = false;
}

Records Recorder::joined(RecordedRound round) {
  Records records;
  EventRecord met = event("RENDEZVOUS", Source::Agent);
  met.took = round.took_to_meet;
  records.emplace_back(std::move(met));
  add_call(records, kAssign, true, round.took_to_assign);
  EventRecord assigned = event("ASSIGN_WORKER_RANKS", Source::Agent);
  assigned.took = round.took_to_assign;
  records.emplace_back(std::move(assigned));
  const Duration both = round.took_to_meet + round.took_to_assign;
  add_call(records, kRendezvous, true, both);
  add_phase(records, "rendezvous", both);
  // Only now: the original, too, does not know its new rank before.
  round_ = std::move(round);
  in_round_ = true;
  return records;
}

Records Recorder::join_failed(std::optional<Duration> took_to_meet, Instant now) {
  Records records;
  const Duration took = now - join_began_;
  EventRecord met = event("RENDEZVOUS", Source::Agent);
  met.took = took_to_meet.value_or(took);
  records.emplace_back(std::move(met));
  if (took_to_meet) {
    const Duration took_to_assign = std::max(took - *took_to_meet, Duration{});
    add_call(records, kAssign, false, took_to_assign);
    EventRecord assigned = event("ASSIGN_WORKER_RANKS", Source::Agent);
    assigned.took = took_to_assign;
    records.emplace_back(std::move(assigned));
  }
  add_call(records, kRendezvous, false, now - join_began_);
  add_phase(records, "rendezvous", now - join_began_);
  add_initialized(records, false, now);
  return records;
}

void Recorder::add_initialized(Records& records, bool succeeded, Instant now) const {
  add_call(records, kInitialize, succeeded, now - join_began_);
  if (restart_began_) add_call(records, kRestart, succeeded, now - *restart_began_);
}

void Recorder::starting(Instant now) { start_began_ = now; }

Records Recorder::started(const std::vector<std::int64_t>& pids, Instant now) {
  Records records;
  add_call(records, kStart, true, now - start_began_);
  add_phase(records, "start", now - start_began_);
  for (std::size_t rank = 0; rank < round_.workers.size() && rank < pids.size(); ++rank) {
    round_.workers[rank].pid = pids[rank];
    EventRecord start = event("START", Source::Worker);
    start.worker = round_.workers[rank];
    records.emplace_back(std::move(start));
  }
  add_initialized(records, true, now);
  add_state(records, State::Healthy);
  running_since_ = now;
  return records;
}

Records Recorder::start_failed(Instant now) {
  Records records;
  add_call(records, kStart, false, now - start_began_);
  add_phase(records, "start", now - start_began_);
  add_initialized(records, false, now);
  return records;
}

void Recorder::stopping(Instant now) {
  if (!stop_began_) stop_began_ = now;
}

Records Recorder::group_over(GroupEnd end, bool signalled, Instant now) {
  Records records;
  group_over_ = true;
  add_phase(records, "run", stop_began_.value_or(now) - running_since_);
  if (stop_began_) add_phase(records, "stop", now - *stop_began_);
  if (signalled) return records;
  if (end == GroupEnd::Succeeded) add_state(records, State::Succeeded);
  if (end == GroupEnd::Failed || end == GroupEnd::Survived) add_state(records, State::Failed);
  if (end != GroupEnd::Succeeded)
    add_call(records, kStop, end != GroupEnd::Survived, now - stop_began_.value_or(now));
  return records;
}

Records Recorder::watchdog(EventRecord::Watchdog what) const {
  EventRecord record = event("RUNNING", Source::Agent);
  record.watchdog = std::move(what);
  return {std::move(record)};
}

void Recorder::checking_in(Instant now) { check_in_began_ = now; }

Records Recorder::checked_in(Instant now) {
  Records records;
  add_phase(records, "exit_barrier", now - check_in_began_);
  return records;
}

void Recorder::add_outcome(Records& records, const RecordedEnd& end) {
  const bool failed = end.ending != Ending::Succeeded;
  const bool retried = restarts_ > 0;
  const double spared = 100.0 * (remaining_ + 1) / (settings_.max_restarts + 1);
  add_metric(records, "flakiness", failed ? 100 : static_cast<std::int64_t>(100.0 - spared));
  add_metric(records, "run_total", 1);
  add_metric(records, "run_success_with_retries", !failed && retried ? 1 : 0);
  add_metric(records, "run_success_no_retries", !failed && !retried ? 1 : 0);
  add_metric(records, "run_failed_with_retries", failed && retried ? 1 : 0);
  add_metric(records, "run_failed_no_retries", failed && !retried ? 1 : 0);
  for (const EventRecord::Worker& worker : round_.workers) {
    const auto failure = std::find_if(
        end.failures.begin(), end.failures.end(),
        [&](const RecordedFailure& one) { return one.global_rank == worker.global_rank; });
    const bool told = failed && failure != end.failures.end();
    EventRecord ended = event(!failed ? "SUCCEEDED"
                              : told  ? "FAILED"
                                      : "TERMINATED",
                              Source::Worker);
    ended.worker = worker;
    if (told) {
      ended.worker->exit_code = failure->exit_code;
      ended.error = failure->error;
    }
    records.emplace_back(std::move(ended));
  }
}

Records Recorder::ended(const RecordedEnd& end, Instant now) {
  Records records;
  const Duration run = now - run_began_.value_or(now);
  total_run_seconds_ = std::chrono::duration_cast<std::chrono::seconds>(run).count();
  if (group_over_ && has_outcome(end.ending)) add_outcome(records, end);
  const bool good = went_well(end);
  add_call(records, kRun, good, run);
  EventRecord agent = event(good ? "SUCCEEDED" : "FAILED", Source::Agent);
  if (!good) agent.error = end.why;
  records.emplace_back(std::move(agent));
  return records;
}

}  // namespace regroup::core::agent
