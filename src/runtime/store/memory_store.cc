// A store inside this process: the keyspace itself, behind a lock.
#include <condition_variable>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/store/keyspace.h"
#include "io/loop/clock.h"
#include "regroup/store.h"

namespace regroup {
namespace {

using namespace core::store;

// What all handles of one memory store share.
struct Shared {
  std::mutex mutex;
  std::condition_variable wait_ended;
  Keyspace keyspace;
  std::unordered_map<ClientId, WaitEnd> ended;  // Of waits whose caller has not looked yet.
  std::uint64_t next_client = 1;
};

class MemoryStore final : public Store {
 public:
  MemoryStore(std::shared_ptr<Shared> shared, Duration timeout)
      : shared_(std::move(shared)), timeout_(timeout) {}

  Result<void> set(std::string_view key, std::string_view value) override {
    return ask<void>(Set{key, value}, [](const Reply*) {});
  }

  Result<std::string> get(std::string_view key) override {
    auto values = multi_get({std::string(key)});
    if (!values) return tl::unexpected(values.error());
    return std::move(values->front());
  }

  Result<std::int64_t> add(std::string_view key, std::int64_t delta) override {
    return ask<std::int64_t>(Add{key, delta}, number);
  }

  Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired) override {
    return ask<std::string>(CompareSet{key, expected, desired}, [](const Reply* reply) {
      return std::string(std::get<Value>(*reply).bytes);
    });
  }

  Result<bool> check(const Keys& keys) override {
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    return ask<bool>(Check{views}, [](const Reply* reply) { return std::get<Ready>(*reply).all; });
  }

  Result<void> wait(const Keys& keys, Duration limit) override {
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    const Instant deadline = io::deadline_after(limit);
    std::unique_lock lock(shared_->mutex);
    return wait_locked(lock, Wait{views, deadline}, deadline,
                       keys.empty() ? std::string() : keys.front());
  }

  Result<bool> delete_key(std::string_view key) override {
    return ask<bool>(DeleteKey{key}, [](const Reply* reply) { return number(reply) > 0; });
  }

  Result<std::int64_t> num_keys() override { return ask<std::int64_t>(NumKeys{}, number); }

  Result<void> append(std::string_view key, std::string_view value) override {
    return ask<void>(Append{key, value}, [](const Reply*) {});
  }

  Result<std::vector<std::string>> multi_get(const Keys& keys) override {
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    const Instant deadline = io::deadline_after(timeout());
    std::unique_lock lock(shared_->mutex);
    if (auto there = wait_locked(lock, Wait{views, deadline}, deadline,
                                 keys.empty() ? std::string() : keys.front());
        !there)
      return tl::unexpected(there.error());
    // Still under the lock, so none of them can have been deleted in between.
    return ask_locked<std::vector<std::string>>(MultiGet{views}, [](const Reply* reply) {
      const KeyViews values = std::get<Values>(*reply).values;
      return std::vector<std::string>(values.begin(), values.end());
    });
  }

  Result<void> multi_set(const Entries& entries) override {
    std::vector<Entry> views;
    for (const auto& [key, value] : entries) views.push_back({key, value});
    return ask<void>(MultiSet{views}, [](const Reply*) {});
  }

  Result<void> queue_push(std::string_view key, std::string_view value) override {
    return ask<void>(QueuePush{key, value}, [](const Reply*) {});
  }

  Result<std::string> queue_pop(std::string_view key) override {
    const Instant deadline = io::deadline_after(timeout());
    std::unique_lock lock(shared_->mutex);
    for (;;) {
      if (auto there = wait_locked(lock, Wait{{&key, 1}, deadline}, deadline, std::string(key));
          !there)
        return tl::unexpected(there.error());
      auto popped = ask_locked<std::optional<std::string>>(QueuePop{key}, popped_value);
      if (!popped) return tl::unexpected(popped.error());
      if (*popped) return std::move(**popped);
      // Another consumer was faster. Wait again.
    }
  }

  Result<std::optional<std::string>> try_queue_pop(std::string_view key) override {
    return ask<std::optional<std::string>>(QueuePop{key}, popped_value);
  }

  Result<std::int64_t> queue_len(std::string_view key) override {
    return ask<std::int64_t>(QueueLen{key}, number);
  }

  Result<std::vector<std::string>> list_keys() override {
    return ask<std::vector<std::string>>(ListKeys{}, [](const Reply* reply) {
      const KeyViews keys = std::get<KeyList>(*reply).keys;
      return std::vector<std::string>(keys.begin(), keys.end());
    });
  }

  Result<void> barrier(std::string_view key, std::int64_t world_size, Duration limit) override {
    const Instant deadline = io::deadline_after(limit);
    std::unique_lock lock(shared_->mutex);
    return wait_locked(lock, Barrier{key, world_size, deadline}, deadline, std::string(key));
  }

  Result<std::shared_ptr<Store>> clone() override {
    return std::make_shared<MemoryStore>(shared_, timeout());
  }

  Duration timeout() const override {
    const std::lock_guard lock(shared_->mutex);
    return timeout_;
  }
  void set_timeout(Duration timeout) override {
    const std::lock_guard lock(shared_->mutex);
    timeout_ = timeout;
  }

 private:
  static std::int64_t number(const Reply* reply) { return std::get<Number>(*reply).value; }

  static std::optional<std::string> popped_value(const Reply* reply) {
    const auto& popped = std::get<Popped>(*reply);
    if (popped.length_before == 0) return std::nullopt;
    return std::string(popped.value);
  }

  // `read` turns the caller's own reply (null if there is none) into the result, while its views
  // are valid.
  template <class T, class Read>
  Result<T> ask(const Request& request, const Read& read) {
    const std::lock_guard lock(shared_->mutex);
    return ask_locked<T>(request, read);
  }

  template <class T, class Read>
  Result<T> ask_locked(const Request& request, const Read& read) {
    const ClientId self{shared_->next_client++};
    Effects effects;
    if (auto done = shared_->keyspace.apply(self, request, effects); !done)
      return tl::unexpected(done.error());
    const Reply* own = nullptr;
    for (const Effect& effect : effects) {
      if (effect.client == self)
        own = &effect.reply;
      else
        deliver(effect);
    }
    if constexpr (std::is_void_v<T>)
      return {};
    else
      return read(own);
  }

  void deliver(const Effect& effect) {
    const auto* ended = std::get_if<WaitEnded>(&effect.reply);
    if (ended == nullptr) return;
    shared_->ended[effect.client] = ended->how;
    shared_->wait_ended.notify_all();
  }

  Result<void> wait_locked(std::unique_lock<std::mutex>& lock, const Request& request,
                           Instant deadline, const std::string& key) {
    const ClientId self{shared_->next_client++};
    Effects effects;
    if (auto done = shared_->keyspace.apply(self, request, effects); !done) return done;
    for (const Effect& effect : effects) deliver(effect);
    const auto is_over = [&] { return shared_->ended.contains(self); };
    const std::chrono::steady_clock::time_point until(deadline.since_start);
    while (!is_over()) {
      if (shared_->wait_ended.wait_until(lock, until, is_over)) break;
      effects.clear();
      shared_->keyspace.expire(io::now(), effects);
      for (const Effect& effect : effects) deliver(effect);
    }
    const WaitEnd how = shared_->ended.extract(self).mapped();
    switch (how) {
      case WaitEnd::Arrived:
        return {};
      case WaitEnd::TimedOut:
        return fail(ErrorKind::Timeout, "wait for '" + key + "': the time limit passed");
      case WaitEnd::Cancelled:
        return fail(ErrorKind::Cancelled, "wait for '" + key + "': the wait was ended");
    }
    return {};
  }

  std::shared_ptr<Shared> shared_;
  Duration timeout_;
};

}  // namespace

std::shared_ptr<Store> make_memory_store(Duration timeout) {
  return std::make_shared<MemoryStore>(std::make_shared<Shared>(), timeout);
}

}  // namespace regroup
