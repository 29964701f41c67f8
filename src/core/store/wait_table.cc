#include "core/store/wait_table.h"

#include "core/store/limits.h"

namespace regroup::core::store {

std::size_t WaitTable::cost_of(std::string_view key) { return kWaitOverhead + 2 * key.size(); }

void WaitTable::begin(ClientId client, KeyViews keys, std::optional<Instant> deadline) {
  Wait& wait = waits_[client];
  if (wait.deadline) deadlines_.erase({*wait.deadline, client});
  wait.missing = keys.size();
  wait.deadline = deadline;
  if (deadline) deadlines_.insert({*deadline, client});
  wait.registrations.reserve(wait.registrations.size() + keys.size());
  for (const std::string_view key : keys) {
    const Serial serial = next_serial_++;
    auto list = lists_.find(key);
    if (list == lists_.end()) list = lists_.emplace(key, WaitList{}).first;
    list->second.emplace(serial, client);
    wait.registrations.push_back({std::string(key), serial});
    bytes_ += cost_of(key);
  }
}

bool WaitTable::end(ClientId client) {
  const auto wait = waits_.find(client);
  if (wait == waits_.end()) return false;
  for (const auto& [key, serial] : wait->second.registrations) {
    bytes_ -= cost_of(key);
    const auto list = lists_.find(key);
    if (list == lists_.end() || list->second.erase(serial) == 0) continue;
    if (list->second.empty()) lists_.erase(list);
  }
  if (wait->second.deadline) deadlines_.erase({*wait->second.deadline, client});
  waits_.erase(wait);
  return true;
}

void WaitTable::arrive(std::string_view key, Effects& effects) {
  if (lists_.empty()) return;
  const auto list = lists_.find(key);
  if (list == lists_.end()) return;
  // The list leaves the map first: ending a wait looks up the client's other registrations there.
  const WaitList arrived = std::move(list->second);
  lists_.erase(list);
  for (const auto& [serial, client] : arrived) count_arrival(client, effects);
}

void WaitTable::arrive_for_one(std::string_view key, Effects& effects) {
  // A client that still waits for other keys will not take the element, so it must not be the only
  // one told.
  for (const std::size_t before = effects.size(); effects.size() == before;) {
    const auto list = lists_.find(key);
    if (list == lists_.end()) return;
    const ClientId client = list->second.begin()->second;
    list->second.erase(list->second.begin());
    if (list->second.empty()) lists_.erase(list);
    count_arrival(client, effects);
  }
}

void WaitTable::count_arrival(ClientId client, Effects& effects) {
  const auto wait = waits_.find(client);
  if (wait == waits_.end()) return;  // An earlier key of the same list has ended it.
  if (--wait->second.missing != 0) return;
  end(client);
  effects.push_back({client, WaitEnded{WaitEnd::Arrived}});
}

void WaitTable::expire(Instant now, Effects& effects) {
  while (!deadlines_.empty() && deadlines_.begin()->first < now) {
    const ClientId client = deadlines_.begin()->second;
    end(client);
    effects.push_back({client, WaitEnded{WaitEnd::TimedOut}});
  }
}

std::optional<Instant> WaitTable::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

}  // namespace regroup::core::store
