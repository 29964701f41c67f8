#include "runtime/store/tcp_store.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "core/store/messages.h"
#include "core/store/number.h"
#include "io/loop/clock.h"
#include "io/net/address.h"
#include "regroup/store.h"
#include "runtime/store/store_channel.h"

namespace regroup {
namespace {

using namespace core::store;
using runtime::StoreChannel;

// PyTorch's worker-count key: it alone has no slash in front.
constexpr std::string_view kWorkerCount = "init/";

// What we wait for may come at the last moment. Giving up while it is being taken would lose the
// connection, and an element of a queue with it.
Instant after_wait(Instant deadline) {
  return std::max(deadline, io::deadline_after(runtime::kAnswerGrace));
}

std::string on_wire(std::string_view key) { return "/" + std::string(key); }

class TcpStore final : public Store {
 public:
  TcpStore(TcpStoreOptions options, StoreChannel channel)
      : options_(std::move(options)), timeout_(options_.timeout), channel_(std::move(channel)) {}

  Result<void> set(std::string_view key, std::string_view value) override {
    const std::string k = on_wire(key);
    return ask<void>("set", key, Set{k, value});
  }

  Result<std::string> get(std::string_view key) override {
    auto values = multi_get_as("get", {std::string(key)});
    if (!values) return tl::unexpected(values.error());
    return std::move(values->front());
  }

  Result<std::int64_t> add(std::string_view key, std::int64_t delta) override {
    const std::string k = on_wire(key);
    return ask<std::int64_t>("add", key, Add{k, delta});
  }

  Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired) override {
    const std::string k = on_wire(key);
    return ask<std::string>("compare_set", key, CompareSet{k, expected, desired});
  }

  Result<bool> check(const Keys& keys) override {
    const WireKeys wire(keys);
    return ask<bool>("check", wire.name(), Check{wire.views()});
  }

  Result<void> wait(const Keys& keys, Duration limit) override {
    const WireKeys wire(keys);
    const std::lock_guard lock(mutex_);
    return wait_locked("wait", wire, io::deadline_after(limit));
  }

  Result<bool> delete_key(std::string_view key) override {
    const std::string k = on_wire(key);
    auto removed = ask<std::int64_t>("delete_key", key, DeleteKey{k});
    if (!removed) return tl::unexpected(removed.error());
    return *removed > 0;
  }

  Result<std::int64_t> num_keys() override { return ask<std::int64_t>("num_keys", {}, NumKeys{}); }

  Result<void> append(std::string_view key, std::string_view value) override {
    const std::string k = on_wire(key);
    return ask<void>("append", key, Append{k, value});
  }

  Result<std::vector<std::string>> multi_get(const Keys& keys) override {
    return multi_get_as("multi_get", keys);
  }

  Result<void> multi_set(const Entries& entries) override {
    std::vector<std::string> keys;
    std::vector<Entry> wire;
    keys.reserve(entries.size());
    for (const auto& [key, value] : entries) {
      keys.push_back(on_wire(key));
      wire.push_back({keys.back(), value});
    }
    return ask<void>("multi_set", {}, MultiSet{wire});
  }

  Result<void> queue_push(std::string_view key, std::string_view value) override {
    const std::string k = on_wire(key);
    return ask<void>("queue_push", key, QueuePush{k, value});
  }

  Result<std::string> queue_pop(std::string_view key) override {
    const WireKeys wire({std::string(key)});
    const std::lock_guard lock(mutex_);
    const Instant deadline = io::deadline_after(timeout_);
    for (;;) {
      if (auto there = wait_locked("queue_pop", wire, deadline); !there)
        return tl::unexpected(there.error());
      auto popped = ask_locked<std::optional<std::string>>(
          "queue_pop", key, QueuePop{wire.views()[0]}, after_wait(deadline));
      if (!popped) return tl::unexpected(popped.error());
      if (*popped) return std::move(**popped);
      // Another consumer was faster. Wait again.
    }
  }

  Result<std::optional<std::string>> try_queue_pop(std::string_view key) override {
    const std::string k = on_wire(key);
    return ask<std::optional<std::string>>("queue_pop", key, QueuePop{k});
  }

  Result<std::int64_t> queue_len(std::string_view key) override {
    const std::string k = on_wire(key);
    return ask<std::int64_t>("queue_len", key, QueueLen{k});
  }

  Result<std::vector<std::string>> list_keys() override {
    auto listed = ask<std::vector<std::string>>("list_keys", {}, ListKeys{});
    if (!listed) return listed;
    std::vector<std::string> keys;
    for (const std::string& key : *listed)
      if (key.starts_with('/')) keys.push_back(key.substr(1));
    return keys;
  }

  Result<void> barrier(std::string_view key, std::int64_t world_size, Duration limit) override {
    const std::string k = on_wire(key);
    const std::lock_guard lock(mutex_);
    return channel_.wait("barrier", key, Barrier{k, world_size, {}}, io::deadline_after(limit));
  }

  Result<std::shared_ptr<Store>> clone() override {
    TcpStoreOptions options = options_;
    options.timeout = timeout();
    options.world_size.reset();
    return connect_tcp_store(options);
  }

  Duration timeout() const override { return timeout_; }
  void set_timeout(Duration timeout) override { timeout_ = timeout; }

  // Announces one more worker; returns how many there are.
  Result<std::int64_t> add_workers(std::int64_t more) {
    return ask<std::int64_t>("announce", kWorkerCount, Add{kWorkerCount, more});
  }

  Result<void> await_workers(std::int64_t world_size, Instant deadline) {
    for (;;) {
      auto text = ask<std::string>("wait for workers", kWorkerCount, Get{kWorkerCount});
      if (!text) return tl::unexpected(text.error());
      const std::int64_t come = parse_number(*text).value_or(0);
      if (come >= world_size) return {};
      if (io::now() >= deadline)
        return fail(
            ErrorKind::Timeout,
            fmt::format("only {} of {} workers have connected to the store", come, world_size));
      std::this_thread::sleep_for(10ms);
    }
  }

 private:
  // The keys as they are sent; they must outlive the request that holds views of them.
  class WireKeys {
   public:
    explicit WireKeys(const Keys& keys) {
      texts_.reserve(keys.size());
      for (const std::string& key : keys) {
        texts_.push_back(on_wire(key));
        views_.push_back(texts_.back());
      }
    }
    KeyViews views() const { return views_; }
    std::string_view name() const {
      return views_.empty() ? std::string_view{} : views_.front().substr(1);
    }

   private:
    std::vector<std::string> texts_;
    std::vector<std::string_view> views_;
  };

  template <class T>
  Result<T> ask(std::string_view action, std::string_view key, const Request& request) {
    const std::lock_guard lock(mutex_);
    return ask_locked<T>(action, key, request, io::deadline_after(timeout_));
  }

  template <class T>
  Result<T> ask_locked(std::string_view action, std::string_view key, const Request& request,
                       Instant deadline) {
    const auto reply = channel_.ask(action, key, request, deadline);
    if (!reply) return tl::unexpected(reply.error());
    if constexpr (std::is_void_v<T>) {
      return {};
    } else if constexpr (std::is_same_v<T, std::string>) {
      return std::string(std::get<Value>(*reply).bytes);
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      return std::get<Number>(*reply).value;
    } else if constexpr (std::is_same_v<T, bool>) {
      return std::get<Ready>(*reply).all;
    } else if constexpr (std::is_same_v<T, std::optional<std::string>>) {
      const auto& popped = std::get<Popped>(*reply);
      if (popped.length_before == 0) return std::optional<std::string>{};
      return std::optional<std::string>(popped.value);
    } else {
      const auto* listed = std::get_if<KeyList>(&*reply);
      const KeyViews views = listed != nullptr ? listed->keys : std::get<Values>(*reply).values;
      return std::vector<std::string>(views.begin(), views.end());
    }
  }

  Result<void> wait_locked(std::string_view action, const WireKeys& keys, Instant deadline) {
    return channel_.wait(action, keys.name(), Wait{keys.views(), {}}, deadline);
  }

  // As PyTorch's clients do: wait for the keys, then ask for them. A missing key would make its
  // legacy server close the connection.
  Result<std::vector<std::string>> multi_get_as(std::string_view action, const Keys& keys) {
    const WireKeys wire(keys);
    const std::lock_guard lock(mutex_);
    const Instant deadline = io::deadline_after(timeout_);
    if (auto there = wait_locked(action, wire, deadline); !there)
      return tl::unexpected(there.error());
    if (keys.size() != 1)
      return ask_locked<std::vector<std::string>>(action, wire.name(), MultiGet{wire.views()},
                                                  after_wait(deadline));
    auto value =
        ask_locked<std::string>(action, wire.name(), Get{wire.views()[0]}, after_wait(deadline));
    if (!value) return tl::unexpected(value.error());
    return std::vector<std::string>{std::move(*value)};
  }

  const TcpStoreOptions options_;
  std::atomic<Duration> timeout_;  // Not under the lock, which a waiting call holds.
  std::mutex mutex_;
  StoreChannel channel_;
};

}  // namespace

std::shared_ptr<Store> runtime::make_tcp_store(const TcpStoreOptions& options,
                                               StoreChannel channel) {
  return std::make_shared<TcpStore>(options, std::move(channel));
}

Result<std::int64_t> runtime::add_workers(Store& tcp_store, std::int64_t more) {
  auto* store = dynamic_cast<TcpStore*>(&tcp_store);
  CHECK(store != nullptr);
  return store->add_workers(more);
}

Result<std::shared_ptr<Store>> connect_tcp_store(const TcpStoreOptions& options) {
  if (options.host.empty())
    return fail(ErrorKind::InvalidArgument, "no host was given for the store");
  if (options.timeout <= Duration{})
    return fail(ErrorKind::InvalidArgument, "the store's timeout must be longer than zero");
  const Instant deadline = io::deadline_after(options.timeout);
  auto channel = StoreChannel::open(options.host, options.port, deadline);
  if (!channel) return tl::unexpected(channel.error());
  auto store = std::make_shared<TcpStore>(options, std::move(*channel));
  if (!options.world_size || *options.world_size < 1) return store;
  if (auto announced = store->add_workers(1); !announced) return tl::unexpected(announced.error());
  if (!options.wait_for_workers) return store;
  if (auto all = store->await_workers(*options.world_size, deadline); !all)
    return tl::unexpected(all.error());
  return store;
}

}  // namespace regroup
