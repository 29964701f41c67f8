#include "core/store/keyspace.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "core/store/number.h"

namespace regroup::core::store {
namespace {

// Decimal text without an allocation: counters are the hottest values of a store.
class DecimalText {
 public:
  explicit DecimalText(std::int64_t number)
      : end_(std::to_chars(digits_, digits_ + sizeof digits_, number).ptr) {}
  std::string_view view() const { return {digits_, static_cast<std::size_t>(end_ - digits_)}; }

 private:
  char digits_[20];
  char* end_;
};

constexpr std::size_t cost_of(std::string_view key, std::size_t value_bytes) {
  return kKeyOverhead + key.size() + value_bytes;
}
constexpr std::size_t cost_of_queue(std::string_view key) { return kQueueOverhead + key.size(); }
constexpr std::size_t cost_of_element(std::string_view value) {
  return kElementOverhead + value.size();
}

}  // namespace

Result<void> Keyspace::apply(ClientId client, const Request& request, Effects& effects) {
  return std::visit([&](const auto& one) { return on(client, one, effects); }, request);
}

Result<void> Keyspace::on(ClientId client, const Ping& request, Effects& effects) {
  effects.push_back({client, Pong{request.nonce}});
  return {};
}

Result<void> Keyspace::on(ClientId, const Set& request, Effects& effects) {
  if (auto room = admit_value(request.key, request.value.size()); !room) return room;
  store(request.key, request.value, effects);
  return {};
}

Result<void> Keyspace::on(ClientId client, const CompareSet& request, Effects& effects) {
  const auto present = values_.find(request.key);
  const bool missing = present == values_.end();
  if (missing ? !request.expected.empty() : present->second != request.expected) {
    const std::string_view answer = missing ? request.expected : present->second;
    if (auto room = admit_answer(answer.size()); !room) return room;
    effects.push_back({client, Value{answer}});
    return {};
  }
  if (auto room = admit_value(request.key, request.desired.size()); !room) return room;
  // Waits end before the answer goes out: the client that asks may itself be waiting for the key.
  store(request.key, request.desired, effects);
  effects.push_back({client, Value{request.desired}});
  return {};
}

Result<void> Keyspace::on(ClientId client, const Get& request, Effects& effects) {
  const auto present = values_.find(request.key);
  const std::string_view value = present == values_.end() ? std::string_view{} : present->second;
  if (auto room = admit_answer(value.size()); !room) return room;
  effects.push_back({client, Value{value}});
  return {};
}

Result<void> Keyspace::on(ClientId client, const Add& request, Effects& effects) {
  const auto total = sum(request.key, request.delta);
  if (!total) return tl::unexpected(total.error());
  const DecimalText text(*total);
  if (auto room = admit_value(request.key, text.view().size()); !room) return room;
  store(request.key, text.view(), effects);
  effects.push_back({client, Number{*total}});
  return {};
}

Result<void> Keyspace::on(ClientId client, const Check& request, Effects& effects) {
  const bool all = std::all_of(request.keys.begin(), request.keys.end(),
                               [this](std::string_view key) { return exists(key); });
  effects.push_back({client, Ready{all}});
  return {};
}

Result<void> Keyspace::on(ClientId client, const Wait& request, Effects& effects) {
  std::size_t cost = 0;
  views_.clear();
  for (const std::string_view key : request.keys) {
    if (exists(key)) continue;
    views_.push_back(key);
    cost += WaitTable::cost_of(key);
  }
  if (views_.empty()) {
    effects.push_back({client, WaitEnded{WaitEnd::Arrived}});
    return {};
  }
  if (auto room = admit(cost, 0); !room) return room;
  waits_.begin(client, views_, request.deadline);
  return {};
}

Result<void> Keyspace::on(ClientId client, const NumKeys&, Effects& effects) {
  effects.push_back({client, Number{static_cast<std::int64_t>(values_.size())}});
  return {};
}

Result<void> Keyspace::on(ClientId client, const DeleteKey& request, Effects& effects) {
  const auto present = values_.find(request.key);
  if (present == values_.end()) {
    effects.push_back({client, Number{0}});
    return {};
  }
  bytes_ -= cost_of(present->first, present->second.size());
  values_.erase(present);
  effects.push_back({client, Number{1}});
  return {};
}

Result<void> Keyspace::on(ClientId, const Append& request, Effects& effects) {
  const auto present = values_.find(request.key);
  if (present == values_.end()) {
    if (auto room = admit_value(request.key, request.value.size()); !room) return room;
    store(request.key, request.value, effects);
    return {};
  }
  if (auto room = admit(request.value.size(), 0); !room) return room;
  present->second.append(request.value);
  bytes_ += request.value.size();
  waits_.arrive(request.key, effects);
  return {};
}

Result<void> Keyspace::on(ClientId client, const MultiGet& request, Effects& effects) {
  std::size_t size = 0;
  views_.clear();
  for (const std::string_view key : request.keys) {
    const auto present = values_.find(key);
    views_.push_back(present == values_.end() ? std::string_view{} : present->second);
    size += sizeof(std::uint64_t) + views_.back().size();
  }
  if (auto room = admit_answer(size); !room) return room;
  effects.push_back({client, Values{views_}});
  return {};
}

Result<void> Keyspace::on(ClientId, const MultiSet& request, Effects& effects) {
  if (auto room = admit_entries(request.entries); !room) return room;
  for (const Entry& entry : request.entries) store(entry.key, entry.value, effects);
  return {};
}

Result<void> Keyspace::on(ClientId client, const CancelWait&, Effects& effects) {
  waits_.end(client);
  effects.push_back({client, WaitEnded{WaitEnd::Cancelled}});
  return {};
}

Result<void> Keyspace::on(ClientId, const QueuePush& request, Effects& effects) {
  const auto queue = queues_.find(request.key);
  const bool created = queue == queues_.end();
  const std::size_t cost =
      cost_of_element(request.value) + (created ? cost_of_queue(request.key) : 0);
  if (auto room = admit(cost, created ? 1 : 0); !room) return room;
  auto& elements = created ? queues_[std::string(request.key)] : queue->second;
  elements.emplace_back(request.value);
  bytes_ += cost;
  waits_.arrive_for_one(request.key, effects);
  return {};
}

Result<void> Keyspace::on(ClientId client, const QueuePop& request, Effects& effects) {
  const auto queue = queues_.find(request.key);
  if (queue == queues_.end()) {
    effects.push_back({client, Popped{}});
    return {};
  }
  auto& elements = queue->second;
  const auto length_before = static_cast<std::int64_t>(elements.size());
  popped_ = std::move(elements.front());
  elements.pop_front();
  bytes_ -= cost_of_element(popped_);
  if (elements.empty()) {  // An empty queue does not exist: check and wait rely on it.
    bytes_ -= cost_of_queue(queue->first);
    queues_.erase(queue);
  }
  effects.push_back({client, Popped{length_before, popped_}});
  return {};
}

Result<void> Keyspace::on(ClientId client, const QueueLen& request, Effects& effects) {
  const auto queue = queues_.find(request.key);
  const std::size_t length = queue == queues_.end() ? 0 : queue->second.size();
  effects.push_back({client, Number{static_cast<std::int64_t>(length)}});
  return {};
}

Result<void> Keyspace::on(ClientId client, const ListKeys&, Effects& effects) {
  std::size_t size = sizeof(std::int64_t);
  views_.clear();
  for (const auto& [key, value] : values_) {
    views_.push_back(key);
    size += sizeof(std::uint64_t) + key.size();
  }
  if (auto room = admit_answer(size); !room) return room;
  effects.push_back({client, KeyList{views_}});
  return {};
}

Result<void> Keyspace::on(ClientId client, const Barrier& request, Effects& effects) {
  const auto come = sum(request.key, 1);
  if (!come) return tl::unexpected(come.error());
  const DecimalText text(*come);
  const bool complete = *come >= request.world_size;
  if (auto room = admit_value(request.key, text.view().size()); !room) return room;
  if (!complete) {
    const std::size_t cost =
        cost_of(request.key, text.view().size()) + WaitTable::cost_of(request.key);
    if (auto room = admit(cost, 0); !room) return room;
  }
  // Not store(): an arrival short of the world size wakes no client.
  auto& value = values_[std::string(request.key)];
  bytes_ += value.empty() ? cost_of(request.key, 0) : 0;
  bytes_ += text.view().size() - value.size();
  value = text.view();
  if (complete) {
    effects.push_back({client, WaitEnded{WaitEnd::Arrived}});
    waits_.arrive(request.key, effects);
  } else {
    waits_.begin(client, {&request.key, 1}, request.deadline);
  }
  return {};
}

Result<void> Keyspace::admit(std::size_t more_bytes, std::size_t more_keys) const {
  if (bytes() + more_bytes > limits_.memory_bytes)
    return fail(ErrorKind::Refused,
                fmt::format("the store holds {} bytes and may not grow by {}: the limit is {}",
                            bytes(), more_bytes, limits_.memory_bytes));
  if (more_keys != 0 && values_.size() + queues_.size() + more_keys > limits_.keys)
    return fail(ErrorKind::Refused,
                fmt::format("the store holds {} keys and may not take {} more: the limit is {}",
                            values_.size() + queues_.size(), more_keys, limits_.keys));
  return {};
}

Result<void> Keyspace::admit_value(std::string_view key, std::size_t value_bytes) const {
  // Far from the limits, which is nearly always, there is no need to check whether the key exists.
  const std::size_t most = cost_of(key, value_bytes);
  if (bytes() + most <= limits_.memory_bytes && values_.size() + queues_.size() < limits_.keys)
    return {};
  const auto present = values_.find(key);
  if (present == values_.end()) return admit(most, 1);
  const std::size_t freed = present->second.size();
  return admit(value_bytes > freed ? value_bytes - freed : 0, 0);
}

Result<void> Keyspace::admit_entries(std::span<const Entry> entries) const {
  std::size_t most = 0;
  for (const Entry& entry : entries) most += cost_of(entry.key, entry.value.size());
  auto room = admit(most, entries.size());
  if (room) return room;
  // Keys that exist already, or are twice in the request, cost less. That matters only near a
  // limit.
  std::unordered_map<std::string_view, std::size_t> fresh;  // The last value of a key counts.
  std::size_t held = 0;
  std::size_t existing = 0;
  for (const Entry& entry : entries) {
    const bool first = fresh.insert_or_assign(entry.key, entry.value.size()).second;
    const auto present = first ? values_.find(entry.key) : values_.end();
    if (present == values_.end()) continue;
    ++existing;
    held += cost_of(entry.key, present->second.size());
  }
  std::size_t wanted = 0;
  for (const auto& [key, size] : fresh) wanted += cost_of(key, size);
  return admit(wanted > held ? wanted - held : 0, fresh.size() - existing);
}

// One large value asked for a hundred thousand times would be an answer of a terabyte.
Result<void> Keyspace::admit_answer(std::size_t bytes) const {
  if (bytes <= limits_.reply_bytes) return {};
  return fail(ErrorKind::Refused, fmt::format("an answer of {} bytes exceeds the limit of {}",
                                              bytes, limits_.reply_bytes));
}

bool Keyspace::exists(std::string_view key) const {
  return values_.find(key) != values_.end() ||
         (!queues_.empty() && queues_.find(key) != queues_.end());
}

void Keyspace::store(std::string_view key, std::string_view value, Effects& effects) {
  auto present = values_.find(key);
  if (present == values_.end()) {
    values_.emplace(key, value);
    bytes_ += cost_of(key, value.size());
  } else {
    bytes_ += value.size() - present->second.size();
    present->second = value;
    // A large value that became small would otherwise keep its memory, uncounted.
    if (present->second.capacity() > 2 * value.size() + kKeyOverhead)
      present->second.shrink_to_fit();
  }
  waits_.arrive(key, effects);
}

Result<std::int64_t> Keyspace::sum(std::string_view key, std::int64_t delta) const {
  const auto present = values_.find(key);
  if (present == values_.end()) return delta;
  const auto number = parse_number(present->second);
  if (!number)
    return fail(ErrorKind::Refused,
                "add to key " + printable(key) + ": its value is no 64-bit number");
  return add_wrapping(*number, delta);
}

}  // namespace regroup::core::store
