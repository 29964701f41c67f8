// The keys, queues, waits and watches of one store.
//
// A machine: a request and the client it came from go in, answers for that client and for others
// come out. It knows no bytes of any protocol, no connection and no clock. It lives on one thread.
//
//   Effects effects;
//   if (auto done = keyspace.apply(client, request, effects); !done) close(client, done.error());
//   for (const Effect& effect : effects) send(effect.client, effect.reply);
//
// The behaviour is that of PyTorch's libuv server, corner cases included, save where that server
// has a defect that no client can want:
// - a compare_set that stores nothing wakes nobody;
// - a multi_set is applied whole or not at all;
// - a client whose wait has ended is not registered for it any more;
// - a wait counts only the keys that are missing, also where a queue is among the others.
//
// Always true: a client has at most one wait; a waiting client is missing at least one arrival;
// bytes() is the sum over everything held, so it is 0 when everything is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/instant.h"
#include "core/store/limits.h"
#include "core/store/messages.h"
#include "regroup/result.h"

namespace regroup::core::store {

class Keyspace {
 public:
  explicit Keyspace(const Limits& limits = {}) : limits_(limits) {}

  // Appends to `effects` what must be told to whom, in order. An error means that the request was
  // refused and nothing has changed; its message says which limit, or what did not fit.
  Result<void> apply(ClientId client, const Request& request, Effects& effects);

  // The client is gone: its wait and its watches go too.
  void forget(ClientId client);

  // Ends the waits whose deadline has passed; exactly at the deadline is still in time.
  void expire(Instant now, Effects& effects);

  // When expire() has something to do next. Empty: never, as things stand.
  std::optional<Instant> next_deadline() const;

  // Deletes every key and queue that begins with `name` and a slash, as the keys of a finished
  // round do. Waits for such keys end as cancelled: nobody will set them any more. Looks at every
  // key once.
  void drop_namespace(std::string_view name, Effects& effects);

  std::size_t keys() const { return values_.size(); }
  std::size_t queues() const { return queues_.size(); }
  std::size_t waiting() const { return waits_.size(); }
  std::size_t bytes() const { return bytes_; }
  const Limits& limits() const { return limits_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const {
      return std::hash<std::string_view>{}(key);
    }
  };
  template <class T>
  using ByKey = std::unordered_map<std::string, T, Hash, std::equal_to<>>;

  // Who waits for a key, first come first: queue_push wakes the first.
  using Serial = std::uint64_t;
  using WaitList = std::map<Serial, ClientId>;
  struct Registration {
    std::string key;
    Serial serial;
  };
  struct Pending {
    std::size_t missing = 0;                  // Arrivals until the wait ends.
    std::vector<Registration> registrations;  // Some may have been used up already.
    std::optional<Instant> deadline;
  };

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
  Result<void> on(ClientId client, const Watch& request, Effects& effects);

  // Whether so many more bytes and keys may come.
  Result<void> admit(std::size_t more_bytes, std::size_t more_keys) const;
  Result<void> admit_value(std::string_view key, std::size_t value_bytes) const;

  bool exists(std::string_view key) const;
  void store(std::string_view key, std::string_view value, Effects& effects);
  Result<std::int64_t> sum(std::string_view key, std::int64_t delta) const;

  void arrive(std::string_view key, Effects& effects);
  void arrive_first(std::string_view key, Effects& effects);
  void count_arrival(ClientId client, Effects& effects);
  void begin_wait(ClientId client, KeyViews missing, std::optional<Instant> deadline);
  bool end_wait(ClientId client);
  void tell_watchers(std::string_view key, Change change, Effects& effects);

  Limits limits_;
  ByKey<std::string> values_;
  ByKey<std::deque<std::string>> queues_;
  ByKey<WaitList> wait_lists_;
  ByKey<std::vector<ClientId>> watchers_;
  std::unordered_map<ClientId, Pending> waits_;
  std::unordered_map<ClientId, std::vector<std::string>> watched_;
  std::set<std::pair<Instant, ClientId>> deadlines_;
  Serial next_serial_ = 0;
  std::size_t bytes_ = 0;

  // What the views of the latest reply point to.
  std::vector<std::string_view> reply_views_;
  std::string popped_;
};

}  // namespace regroup::core::store
