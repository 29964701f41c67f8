#include "core/watchdog/watchdog.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace regroup::core::watchdog {

bool Watchdog::earlier(Slot one, Slot other) const {
  const Entry& a = entries_[one];
  const Entry& b = entries_[other];
  return std::tie(a.timer.deadline, a.order) < std::tie(b.timer.deadline, b.order);
}

void Watchdog::put(std::size_t place, Slot slot) {
  heap_[place] = slot;
  entries_[slot].place = place;
}

void Watchdog::rise(std::size_t place) {
  const Slot slot = heap_[place];
  while (place > 0) {
    const std::size_t above = (place - 1) / 2;
    if (!earlier(slot, heap_[above])) break;
    put(place, heap_[above]);
    place = above;
  }
  put(place, slot);
}

void Watchdog::sink(std::size_t place) {
  const Slot slot = heap_[place];
  for (;;) {
    std::size_t below = 2 * place + 1;
    if (below >= heap_.size()) break;
    if (below + 1 < heap_.size() && earlier(heap_[below + 1], heap_[below])) ++below;
    if (!earlier(heap_[below], slot)) break;
    put(place, heap_[below]);
    place = below;
  }
  put(place, slot);
}

void Watchdog::take_out(Slot slot) {
  const std::size_t place = entries_[slot].place;
  const Slot last = heap_.back();
  heap_.pop_back();
  if (last == slot) return;
  put(place, last);
  rise(place);
  sink(entries_[last].place);
}

Timer Watchdog::remove(Slot slot) {
  take_out(slot);
  free_.push_back(slot);
  return std::move(entries_[slot].timer);
}

bool Watchdog::acquire(Timer timer) {
  const auto process = processes_.find(timer.process);
  if (process != processes_.end()) {
    if (const auto found = process->second.find(timer.scope); found != process->second.end()) {
      Entry& entry = entries_[found->second];
      entry.timer = std::move(timer);
      entry.order = acquired_++;
      rise(entry.place);
      sink(entry.place);
      return true;
    }
  }
  if (heap_.size() >= most_) return false;
  Slot slot = 0;
  if (free_.empty()) {
    slot = static_cast<Slot>(entries_.size());
    entries_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  processes_[timer.process].emplace(timer.scope, slot);
  entries_[slot].timer = std::move(timer);
  entries_[slot].order = acquired_++;
  heap_.push_back(slot);
  rise(heap_.size() - 1);
  return true;
}

void Watchdog::release(ProcessId process, std::string_view scope) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;
  const auto timer = found->second.find(scope);
  if (timer == found->second.end()) return;
  remove(timer->second);
  found->second.erase(timer);
  if (found->second.empty()) processes_.erase(found);
}

void Watchdog::forget(ProcessId process) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;
  for (const auto& [scope, slot] : found->second) remove(slot);
  processes_.erase(found);
}

void Watchdog::forget_all() {
  processes_.clear();
  heap_.clear();
  entries_.clear();
  free_.clear();
}

std::vector<Verdict> Watchdog::expire(Instant now) {
  std::vector<Verdict> verdicts;
  std::unordered_map<ProcessId, std::size_t> place;
  while (!heap_.empty() && entries_[heap_.front()].timer.deadline <= now) {
    Timer timer = remove(heap_.front());
    const auto process = processes_.find(timer.process);
    CHECK(process != processes_.end());
    process->second.erase(timer.scope);
    if (process->second.empty()) processes_.erase(process);

    const auto [at, is_new] = place.try_emplace(timer.process, verdicts.size());
    if (is_new) verdicts.push_back({.process = timer.process, .expired = {}, .deciding = {}});
    Verdict& verdict = verdicts[at->second];
    if (!verdict.deciding && timer.signal > 0) verdict.deciding = verdict.expired.size();
    verdict.expired.push_back(std::move(timer));
  }
  return verdicts;
}

void Watchdog::postpone(const Verdict& verdict, Instant again) {
  for (Timer timer : verdict.expired) {
    timer.deadline = again;
    acquire(std::move(timer));
  }
}

std::optional<Instant> Watchdog::next_deadline() const {
  if (heap_.empty()) return {};
  return entries_[heap_.front()].timer.deadline;
}

}  // namespace regroup::core::watchdog
