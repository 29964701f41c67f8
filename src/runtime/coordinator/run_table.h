// The runs with sessions at one port: by id, and by when the next of them has something to do.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "core/run/run_status.h"
#include "core/store/by_key.h"
#include "runtime/coordinator/coordinator_counters.h"
#include "runtime/coordinator/session_service.h"
#include "runtime/coordinator/shown_state.h"

namespace regroup::runtime {

struct Run {
  Run(const core::coordinator::Hello& hello, ShownState state,
      std::optional<core::rendezvous::State> present, core::coordinator::Now now)
      : id(hello.run_id),
        shown(std::move(state)),
        coordinator(hello.run_id, hello.rules, std::move(present), now) {}

  const std::string id;
  ShownState shown;
  core::coordinator::Coordinator coordinator;
  std::size_t sessions = 0;         // A run with sessions is kept.
  std::optional<Instant> due = {};  // Where the table has filed it.
};

// Runs that have ended and were forgotten to make room, by their ids. Beyond this the oldest are
// forgotten altogether.
inline constexpr std::size_t kEndedRuns = 10'000;

class RunTable {
 public:
  explicit RunTable(std::size_t most) : most_(most) {}
  bool empty() const { return runs_.empty(); }
  Run* find(std::string_view id) const;

  // Null: there are too many, and none of them is over and without sessions.
  Run* make(const core::coordinator::Hello& hello, ShownState shown,
            std::optional<core::rendezvous::State> present, KeyAccess& keys,
            core::coordinator::Now now);

  // It was closed, and then forgotten.
  bool has_ended(std::string_view id) const { return ended_.contains(id); }

  // A run without sessions.
  void forget(Run& run, KeyAccess& keys, core::coordinator::Now now);

  // To be called after every step of the run's coordinator that may have brought its deadline
  // nearer. Costs nothing if it has not moved.
  void reschedule(Run& run);
  std::optional<Instant> next_due() const;
  std::vector<Run*> due(Instant now) const;

  std::vector<core::run::RunStatus> status(core::coordinator::Now now) const;
  Presence presence() const;
  void clear();

 private:
  bool forget_one_that_is_left(KeyAccess& keys, core::coordinator::Now now);

  const std::size_t most_;
  core::store::ByKey<std::unique_ptr<Run>> runs_;
  std::set<std::pair<Instant, Run*>> due_;
  std::set<std::string, std::less<>> ended_;
  std::deque<std::string> ended_in_order_;
};

}  // namespace regroup::runtime
