// Serves one keyspace to the clients of one port. Every PyTorch client speaks to it.
//
// Lives on the loop's thread. Requests that came in one read are answered in one write. A client
// that does not read its answers is not read from either; a client that sends garbage is closed,
// counted and logged; half a message makes only its sender wait. A connection that does not
// greet is closed after a while, and one that asks for nothing when another comes and there is no
// room.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/store/keyspace.h"
#include "io/loop/loop.h"
#include "regroup/result.h"
#include "runtime/common/limits.h"
#include "runtime/coordinator/session_service.h"

namespace regroup::runtime {

class CoordinatorHost;
class Secret;

// How long a store's loop looks for the next request before it sleeps.
inline constexpr Duration kStoreLinger = 50us;

struct StoreHostOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  core::store::Limits limits = {};
  std::size_t clients = kClients;
  Duration greeting = kGreetingLimit;
  std::size_t reserved_descriptors = kReservedByServer;  // Half of all at the most.
  bool coordinator = false;  // Agents of regroup may hold sessions here: see docs/protocol.md.
  SessionLimits sessions = {};
  std::shared_ptr<const Secret> secret = {};  // Of its sessions; null: none.
};

struct StoreCounters {
  std::uint64_t clients = 0;      // Now.
  std::uint64_t connections = 0;  // Ever.
  std::uint64_t turned_away = 0;  // Beyond the limit of clients.
  std::uint64_t silent = 0;       // Connections closed because they asked for nothing.
  std::uint64_t malformed = 0;    // Connections closed for what they sent.
  std::uint64_t refused = 0;      // Connections closed for a request that could not be served.
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t keys = 0;
  std::uint64_t queues = 0;
  std::uint64_t waiting = 0;  // Clients in a wait.
  std::uint64_t memory = 0;   // As the limit counts it.
  std::array<std::uint64_t, std::variant_size_v<core::store::Request>> requests{};  // By kind.
};

std::string describe(const StoreCounters& counters);

class StoreHost {
 public:
  static Result<std::unique_ptr<StoreHost>> open(io::Loop& loop, const StoreHostOptions& options);
  virtual ~StoreHost() = default;

  virtual std::uint16_t port() const = 0;
  virtual std::vector<std::string> addresses() const = 0;
  virtual StoreCounters counters() const = 0;
  virtual CoordinatorHost* coordinator() = 0;  // Null without the option.

  // Forgets every key and closes every connection; not from inside a call of a connection. A client
  // that was still in the kernel's queue becomes a client of the new store.
  virtual void clear() = 0;
};

}  // namespace regroup::runtime
