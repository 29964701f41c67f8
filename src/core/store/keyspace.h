// The keys, queues and waits of one store.
//
// A machine: a request and the client it came from go in, answers for that client and for others
// come out. It knows no bytes of any protocol, no connection and no clock. It lives on one thread.
//
//   Effects effects;
//   if (auto done = keyspace.apply(client, request, effects); !done) close(client, done.error());
//   for (const Effect& effect : effects) send(effect.client, effect.reply);
//
// The behaviour is that of PyTorch's libuv server, corner cases included, except where that server
// has a defect that no client can want:
// - a compare_set that stores nothing wakes no client;
// - a multi_set is applied whole or not at all;
// - a client whose wait has ended is not registered for it any more;
// - a wait counts only the keys that are missing, also where a queue is among the others.
//
// Always true: bytes() is the sum over everything held, so it is 0 when everything is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/instant.h"
#include "core/store/by_key.h"
#include "core/store/limits.h"
#include "core/store/messages.h"
#include "core/store/wait_table.h"
#include "regroup/result.h"

namespace regroup::core::store {

class Keyspace {
 public:
  explicit Keyspace(const Limits& limits = {}) : limits_(limits) {}

  // Appends to `effects` what must be sent to which client, in order. An error means that the
  // request was refused and nothing has changed; its message says which limit, or what did not fit.
  Result<void> apply(ClientId client, const Request& request, Effects& effects);

  // The client is gone, and its wait with it.
  void forget(ClientId client) { waits_.end(client); }

  // Ends the waits whose deadline has passed; exactly at the deadline is still in time.
  void expire(Instant now, Effects& effects) { waits_.expire(now, effects); }

  // When expire() has something to do next. Empty: not until something else happens.
  std::optional<Instant> next_deadline() const { return waits_.next_deadline(); }

  std::size_t keys() const { return values_.size(); }
  std::size_t queues() const { return queues_.size(); }
  std::size_t waiting() const { return waits_.size(); }
  std::size_t bytes() const { return bytes_ + waits_.bytes(); }
  const Limits& limits() const { return limits_; }

 private:
  Result<void> on(ClientId client, const Ping& request, Effects& effects);
  Result<void> on(ClientId client, const Set& request, Effects& effects);
  Result<void> on(ClientId client, const CompareSet& request, Effects& effects);
  Result<void> on(ClientId client, const Get& request, Effects& effects);
  Result<void> on(ClientId client, const Add& request, Effects& effects);
  Result<void> on(ClientId client, const Check& request, Effects& effects);
  Result<void> on(ClientId client, const Wait& request, Effects& effects);
  Result<void> on(ClientId client, const NumKeys& request, Effects& effects);
  Result<void> on(ClientId client, const DeleteKey& request, Effects& effects);
  Result<void> on(ClientId client, const Append& request, Effects& effects);
  Result<void> on(ClientId client, const MultiGet& request, Effects& effects);
  Result<void> on(ClientId client, const MultiSet& request, Effects& effects);
  Result<void> on(ClientId client, const CancelWait& request, Effects& effects);
  Result<void> on(ClientId client, const QueuePush& request, Effects& effects);
  Result<void> on(ClientId client, const QueuePop& request, Effects& effects);
  Result<void> on(ClientId client, const QueueLen& request, Effects& effects);
  Result<void> on(ClientId client, const ListKeys& request, Effects& effects);
  Result<void> on(ClientId client, const Barrier& request, Effects& effects);

  // Whether this many more bytes and keys fit.
  Result<void> admit(std::size_t more_bytes, std::size_t more_keys) const;
  Result<void> admit_value(std::string_view key, std::size_t value_bytes) const;
  Result<void> admit_entries(std::span<const Entry> entries) const;
  Result<void> admit_answer(std::size_t bytes) const;

  bool exists(std::string_view key) const;
  void store(std::string_view key, std::string_view value, Effects& effects);
  Result<std::int64_t> sum(std::string_view key, std::int64_t delta) const;

  Limits limits_;
  ByKey<std::string> values_;
  ByKey<std::deque<std::string>> queues_;
  WaitTable waits_;
  std::size_t bytes_ = 0;  // Without the waits.

  // What the views of the latest reply point to.
  std::vector<std::string_view> views_;
  std::string popped_;
};

}  // namespace regroup::core::store
