// The key-value store of a run: one interface, and the places where keys can live.
//
//   auto store = regroup::connect_tcp_store({.host = "10.0.0.1", .port = 29500});
//   if (!store) return report(store.error());
//   (*store)->set("state", "ready");
//   auto value = (*store)->get("peer/state");      // Waits for the key, at most timeout().
//
// The operations, their corner cases and their bytes are those of PyTorch's c10d stores, so that
// C++ programs, regroup and PyTorch workers can share one store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "regroup/result.h"
#include "regroup/time.h"

namespace regroup {

inline constexpr Duration kDefaultStoreTimeout = 300s;

// One store object may be used by several threads. A TCP store works on one request at a time, so a
// waiting call holds up the others: clone() gives each waiter a connection of its own.
//
// Every call ends within timeout(), or within the limit passed to it; over TCP a server that has
// stopped answering can add ten seconds to that. A call that waits and ends with ErrorKind::Timeout
// leaves nothing behind at the server (except barrier(), see there).
class Store {
 public:
  using Keys = std::vector<std::string>;
  using Entries = std::vector<std::pair<std::string, std::string>>;

  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  virtual Result<void> set(std::string_view key, std::string_view value) = 0;

  // Waits until the key exists.
  virtual Result<std::string> get(std::string_view key) = 0;

  // Adds to the decimal text kept under the key (nothing there counts as 0) and returns the sum.
  // Refused when the value is no number.
  virtual Result<std::int64_t> add(std::string_view key, std::int64_t delta) = 0;

  // Stores `desired` if the present value equals `expected`, where an empty `expected` also matches
  // a missing key. Returns what the key holds afterwards, with one exception that PyTorch's clients
  // rely on: a missing key and a non-empty `expected` give back `expected`.
  virtual Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                          std::string_view desired) = 0;

  // True if all of them exist (a queue that holds something counts as existing).
  virtual Result<bool> check(const Keys& keys) = 0;

  virtual Result<void> wait(const Keys& keys, Duration limit) = 0;
  Result<void> wait(const Keys& keys) { return wait(keys, timeout()); }

  // True if there was something to delete.
  virtual Result<bool> delete_key(std::string_view key) = 0;

  // Counts every key of the underlying store, also those outside a prefix.
  virtual Result<std::int64_t> num_keys() = 0;

  virtual Result<void> append(std::string_view key, std::string_view value) = 0;

  // Waits until all keys exist; the values come in the order of the keys.
  virtual Result<std::vector<std::string>> multi_get(const Keys& keys) = 0;

  // All or nothing.
  virtual Result<void> multi_set(const Entries& entries) = 0;

  virtual Result<void> queue_push(std::string_view key, std::string_view value) = 0;
  virtual Result<std::string> queue_pop(std::string_view key) = 0;  // Waits for an element.
  virtual Result<std::optional<std::string>> try_queue_pop(std::string_view key) = 0;
  virtual Result<std::int64_t> queue_len(std::string_view key) = 0;

  // In no particular order.
  virtual Result<std::vector<std::string>> list_keys() = 0;

  // Waits until `world_size` callers have come. A caller that times out still counts as one that
  // came: the protocol has no way to take it back. regroup/store_helpers.h has a barrier that names
  // the missing ranks.
  virtual Result<void> barrier(std::string_view key, std::int64_t world_size, Duration limit) = 0;
  Result<void> barrier(std::string_view key, std::int64_t world_size) {
    return barrier(key, world_size, timeout());
  }

  // The same store through a connection of its own, for a second thread that waits.
  virtual Result<std::shared_ptr<Store>> clone() = 0;

  virtual Duration timeout() const = 0;
  virtual void set_timeout(Duration timeout) = 0;
};

struct TcpStoreOptions {
  std::string host;
  std::uint16_t port = 29500;
  Duration timeout = kDefaultStoreTimeout;  // For connecting, and for each call afterwards.

  // Announces this client under PyTorch's worker-count key, as a PyTorch store with a world size
  // does; with wait_for_workers, returns only when that many have announced themselves.
  std::optional<std::int64_t> world_size = {};
  bool wait_for_workers = false;
};

// Speaks to `regroup store` and to PyTorch's own servers, 2.2 and newer. Keeps trying to resolve
// and to connect until the timeout; once open, a lost connection is an error for every later call.
Result<std::shared_ptr<Store>> connect_tcp_store(const TcpStoreOptions& options);

struct FileStoreOptions {
  std::string path;
  // How many objects will share the file; the last to be destroyed removes it. None: it stays.
  std::optional<std::int64_t> world_size = {};
  Duration timeout = kDefaultStoreTimeout;
  bool only_look = false;  // Leaves no trace of this object in the file, as long as nothing is set.
};

// Shares its file with PyTorch's FileStore objects. It has no queues, and append reads, extends and
// writes again under the file's lock.
Result<std::shared_ptr<Store>> open_file_store(const FileStoreOptions& options);

// Lives in this process. clone() gives another handle to the same keys.
std::shared_ptr<Store> make_memory_store(Duration timeout = kDefaultStoreTimeout);

// Every key becomes `prefix/key` in the inner store.
std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> inner);

struct StoreServerOptions {
  std::string host = "127.0.0.1";  // An address, a name, "::" or "0.0.0.0"; only that is bound.
  std::uint16_t port = 0;          // 0: any free port, bound once and kept.
  bool coordinator = false;  // Agents of regroup may hold sessions here: see docs/protocol.md.
  // The file with the secret that they have to prove they know (--rdzv-secret-file). Empty: none.
  std::string secret_file = {};
  // The secret itself, for a coordinator whose only agent is in this process. How its runs stand may be
  // looked at without it. Empty: none.
  std::string own_secret = {};
};

// A store server inside this process, on a thread that all its servers share. Clients may be PyTorch's.
class StoreServer {
 public:
  static Result<std::unique_ptr<StoreServer>> start(const StoreServerOptions& options);
  virtual ~StoreServer() = default;  // Closes every connection.
  virtual std::uint16_t port() const = 0;

  // Forgets every key and closes every connection, so that clients that waited notice; then goes on
  // listening on the same port. All of it is done when this returns. From any thread.
  virtual void clear() = 0;

  // How many agents have a session here. From any thread.
  virtual std::size_t sessions() = 0;
};

}  // namespace regroup
