#include "runtime/coordinator/run_table.h"

#include <algorithm>

namespace regroup::runtime {

using core::coordinator::Now;

Run* RunTable::find(std::string_view id) const {
  const auto found = runs_.find(id);
  return found == runs_.end() ? nullptr : found->second.get();
}

Run* RunTable::make(const core::coordinator::Hello& hello, ShownState shown,
                    std::optional<core::rendezvous::State> present, KeyAccess& keys, Now now) {
  if (runs_.size() >= most_ && !forget_one_that_is_left(keys, now)) return nullptr;
  auto run = std::make_unique<Run>(hello, std::move(shown), std::move(present), now);
  return runs_.emplace(hello.run_id, std::move(run)).first->second.get();
}

bool RunTable::forget_one_that_is_left(KeyAccess& keys, Now now) {
  const auto found = std::find_if(runs_.begin(), runs_.end(), [](const auto& one) {
    const Run& run = *one.second;
    return run.sessions == 0 && (run.coordinator.is_over() || run.coordinator.is_deserted());
  });
  if (found == runs_.end()) return false;
  forget(*found->second, keys, now);
  return true;
}

// What remains of it is the state under its key: a node that comes late finds it closed, or goes on
// counting its rounds.
void RunTable::forget(Run& run, KeyAccess& keys, Now now) {
  run.shown.leave(keys, run.coordinator.state_for_others(now));
  if (run.coordinator.is_over() && ended_.insert(run.id).second) {
    ended_in_order_.push_back(run.id);
    if (ended_in_order_.size() > kEndedRuns) {
      ended_.erase(ended_in_order_.front());
      ended_in_order_.pop_front();
    }
  }
  if (run.due) due_.erase({*run.due, &run});
  const auto found = std::find_if(runs_.begin(), runs_.end(),
                                  [&](const auto& one) { return one.second.get() == &run; });
  runs_.erase(found);
}

void RunTable::reschedule(Run& run) {
  const auto due = run.coordinator.next_deadline();
  if (due == run.due) return;
  if (run.due) due_.erase({*run.due, &run});
  run.due = due;
  if (run.due) due_.insert({*run.due, &run});
}

std::optional<Instant> RunTable::next_due() const {
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

std::vector<Run*> RunTable::due(Instant now) const {
  std::vector<Run*> runs;
  for (const auto& [at, run] : due_) {
    if (at > now) break;
    runs.push_back(run);
  }
  return runs;
}

std::vector<core::run::RunStatus> RunTable::status(Now now) const {
  std::vector<core::run::RunStatus> all;
  all.reserve(runs_.size());
  for (const auto& [id, run] : runs_) all.push_back(run->coordinator.status(now));
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.run_id < b.run_id; });
  return all;
}

Presence RunTable::presence() const {
  Presence present;
  for (const auto& [id, run] : runs_) {
    if (!run->coordinator.is_over()) ++present.runs;
    present.nodes += run->sessions;
  }
  return present;
}

void RunTable::clear() {
  due_.clear();
  runs_.clear();
  ended_.clear();
  ended_in_order_.clear();
}

}  // namespace regroup::runtime
