// Makes the original's events and metrics of what one node's agent goes through, in its order.
//
// A pure machine beside Agent: its host says what happens, and hands the records out. Their wall
// times are the host's to fill in. It never refuses: a call that does not fit makes fewer records.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/instant.h"
#include "core/agent/agent.h"
#include "regroup/records.h"

namespace regroup::core::agent {

using Record = std::variant<EventRecord, MetricRecord>;
using Records = std::vector<Record>;

struct RecordedRound {
  std::int64_t group_rank = 0;
  std::int64_t group_world_size = 1;
  std::vector<EventRecord::Worker> workers = {};  // By local rank; pids are not known yet.
  Duration took_to_meet{};
  Duration took_to_assign{};
};

struct RecordedFailure {
  int global_rank = 0;
  int exit_code = 0;
  std::string error = {};  // JSON.
};

struct RecordedEnd {
  Ending ending = Ending::Succeeded;
  bool failed_elsewhere = false;               // Of Ending::Failed: another node says so.
  std::vector<RecordedFailure> failures = {};  // Of the last start.
  std::string why = {};                        // For people, if not one of our workers is to blame.
};

class Recorder {
 public:
  struct Settings {
    std::string run_id = {};
    std::string role = {};
    std::string host = {};
    std::string rendezvous_backend = {};
    std::string entry_point = {};
    int max_restarts = 0;
  };
  explicit Recorder(Settings settings);

  // The first one begins the run. `restarts`: with this one; `remaining_restarts`: after it. Where a
  // limit is for some time, there may have been more than the limit.
  void joining(int restarts, int remaining_restarts, Instant now);
  Records joined(RecordedRound round);
  // `took_to_meet`: of nodes that have met, but could not agree on ranks.
  Records join_failed(std::optional<Duration> took_to_meet, Instant now);

  void starting(Instant now);
  Records started(const std::vector<std::int64_t>& pids, Instant now);  // By local rank.
  Records start_failed(Instant now);

  // A worker has failed, or the workers are told to stop. The first one counts.
  void stopping(Instant now);
  // `signalled`: somebody told us to end; the original says no more then than that it failed.
  Records group_over(GroupEnd end, bool signalled, Instant now);

  Records watchdog(EventRecord::Watchdog what) const;

  void checking_in(Instant now);
  Records checked_in(Instant now);

  Records ended(const RecordedEnd& end, Instant now);

 private:
  EventRecord event(std::string state, EventRecord::Source source) const;
  void add_metric(Records& records, const std::string& name, std::int64_t value) const;
  void add_state(Records& records, State state) const;
  // `name` has succeeded or failed, and how long that took.
  static void add_call(Records& records, const std::string& name, bool succeeded, Duration took);
  static void add_phase(Records& records, const std::string& name, Duration took);
  void add_initialized(Records& records, bool succeeded, Instant now) const;
  void add_outcome(Records& records, const RecordedEnd& end);

  Settings settings_;
  int remaining_;
  int restarts_ = 0;
  RecordedRound round_;
  bool in_round_ = false;
  bool group_over_ = false;  // The workers of the round have run, and have ended.
  std::int64_t total_run_seconds_ = 0;
  std::optional<Instant> run_began_;
  std::optional<Instant> restart_began_;
  std::optional<Instant> stop_began_;
  Instant join_began_{};
  Instant start_began_{};
  Instant running_since_{};
  Instant check_in_began_{};
};

}  // namespace regroup::core::agent
