#include "runtime/rendezvous/bootstrap.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "base/text_parts.h"
#include "io/loop/clock.h"
#include "io/net/interfaces.h"
#include "runtime/common/limits.h"
#include "runtime/rendezvous/exchange.h"
#include "wire/rendezvous/rendezvous_keys.h"

namespace regroup::runtime {
namespace {

using core::rendezvous::NodeId;
using core::rendezvous::State;

constexpr const char* kAddressKey = "MASTER_ADDR";
constexpr const char* kPortKey = "MASTER_PORT";

// A torchrun node that has a pair to tell does so as soon as it sees the round sealed, and it looks
// once a second.
constexpr Duration kPatience = 3s;
constexpr Duration kAnswerLimit = 2s;

bool sharing_is_on() {
  const char* disabled = std::getenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
  return disabled == nullptr || std::string_view(disabled) != "1";
}

Result<BootstrapStore> read_pair(Store& store) {
  auto values = store.multi_get({kAddressKey, kPortKey});
  if (!values) return tl::unexpected(values.error());
  BootstrapStore where{.address = std::move((*values)[0])};
  const std::string& digits = (*values)[1];
  where.port = to_number<std::uint16_t>(digits).value_or(0);
  if (where.port == 0 || where.address.empty())
    return fail(
        ErrorKind::Protocol,
        fmt::format(
            "rank 0 says that the workers' store is at {} port {}, which is no address and port",
            printable(where.address), printable(digits)));
  return where;
}

Result<void> publish(const BootstrapStore& where, Store& round_store) {
  if (auto set = round_store.set(kAddressKey, where.address); !set) return set;
  return round_store.set(kPortKey, std::to_string(where.port));
}

// Writes the address under the keys of this round too. A torchrun node that has just come waits for
// them there, and a torchrun node that has been rank 0 before does not write them again.
Result<BootstrapStore> tell_again(BootstrapStore where, Store& round_store) {
  const auto there = round_store.check({kAddressKey, kPortKey});
  if (!there) return tl::unexpected(there.error());
  if (*there) return read_pair(round_store);
  if (auto told = publish(where, round_store); !told) return tl::unexpected(told.error());
  return where;
}

bool answers(const BootstrapStore& where) {
  return connect_tcp_store({.host = where.address, .port = where.port, .timeout = kAnswerLimit})
      .has_value();
}

bool has_torchrun_nodes(const State& state) {
  return std::any_of(state.participants.begin(), state.participants.end(),
                     [&](const auto& entry) { return !state.claims.contains(entry.first); });
}

const NodeId& rank_0(const State& state) {
  return std::min_element(state.participants.begin(), state.participants.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace

Bootstrap::Bootstrap(std::string run_id, std::string address, const std::atomic<bool>& interrupted)
    : run_id_(std::move(run_id)),
      address_(std::move(address)),
      interrupted_(interrupted),
      shared_(sharing_is_on()) {}

Result<BootstrapStore> Bootstrap::offer() {
  if (server_) server_->clear();
  return serve();
}

Result<BootstrapStore> Bootstrap::agree(const State& joined, const NodeId& self,
                                        const std::shared_ptr<Store>& store,
                                        const std::function<bool()>& is_broken) {
  const NodeId& first = rank_0(joined);
  // The keys of the last round are forgotten now: no workers run between two rounds, and none
  // start before every node has come through here, because ranks are assigned when each node has
  // reported. The port stays, because other nodes may have kept it. Where no node waits for ranks,
  // only rank 0 may forget the keys, before it says where its store is.
  if (server_ && (first == self || !nodes_are_identical())) server_->clear();
  const auto round_store = make_prefix_store(wire::round_prefix(run_id_, joined.round), store);
  if (first != self) {
    const bool is_torchrun = !joined.claims.contains(first);
    if (!shared_ || !is_torchrun) return await(joined.round, *round_store, is_broken, {});
    auto where = known_ && known_->node == first
                     ? tell_again(known_->where, *round_store)
                     : await(joined.round, *round_store, is_broken,
                             [&] { return of_earlier_rounds(joined.round, store); });
    if (where) known_ = Known{first, *where};
    return where;
  }
  if (shared_ && has_torchrun_nodes(joined)) {
    // They stay with the address of their first round, whichever node is rank 0 now; so all must.
    auto earlier = of_earlier_rounds(joined.round, store);
    if (!earlier) return tl::unexpected(earlier.error());
    const bool is_ours =
        server_ && *earlier && **earlier == BootstrapStore{address_, server_->port()};
    if (*earlier && !is_ours && answers(**earlier)) {
      if (auto told = publish(**earlier, *round_store); !told) return tl::unexpected(told.error());
      return std::move(**earlier);
    }
  }
  auto where = serve();
  if (!where) return where;
  if (auto told = publish(*where, *round_store); !told) return tl::unexpected(told.error());
  return where;
}

Result<BootstrapStore> Bootstrap::serve() {
  if (!shared_) {
    reserved_.reset();
    auto port = io::ReservedPort::open();
    if (!port) return tl::unexpected(port.error());
    reserved_ = std::move(*port);
    return BootstrapStore{address_, reserved_->port()};
  }
  if (server_) return BootstrapStore{address_, server_->port()};
  // Just the announced address, if it is one of ours: a run on 127.0.0.1 stays on 127.0.0.1.
  const bool is_literal = io::literal_address(address_).has_value();
  auto server = StoreServer::start({.host = is_literal ? address_ : "::", .port = 0});
  if (!server && is_literal) server = StoreServer::start({.host = "::", .port = 0});
  if (!server) return tl::unexpected(server.error());
  server_ = std::move(*server);
  return BootstrapStore{address_, server_->port()};
}

Result<BootstrapStore> Bootstrap::await(
    std::int64_t round, Store& round_store, const std::function<bool()>& is_broken,
    const std::function<Result<std::optional<BootstrapStore>>()>& find_older) {
  const Instant start = io::now();
  const Instant deadline = io::deadline_after(round_store.timeout());
  for (;;) {
    const auto here = round_store.wait({kAddressKey, kPortKey}, kNoticedWithin);
    if (here) return read_pair(round_store);
    if (here.error().kind != ErrorKind::Timeout) return tl::unexpected(here.error());
    if (interrupted_) return fail(ErrorKind::Cancelled, "interrupted");
    if (is_broken && is_broken())
      return fail(ErrorKind::Cancelled, fmt::format("round {} is broken", round));
    if (find_older && io::now() - start > kPatience) {
      auto older = find_older();
      if (!older) return tl::unexpected(older.error());
      if (*older && answers(**older)) return tell_again(std::move(**older), round_store);
    }
    if (io::now() > deadline)
      return fail(
          ErrorKind::Timeout,
          fmt::format("round {}: rank 0 has not said where the workers' store is (MASTER_ADDR, "
                      "MASTER_PORT). It may have died since the round was sealed.",
                      round));
  }
}

Result<std::optional<BootstrapStore>> Bootstrap::of_earlier_rounds(
    std::int64_t round, const std::shared_ptr<Store>& store) {
  const std::int64_t oldest = std::max<std::int64_t>(0, round - kRoundsLookedBack);
  for (std::int64_t earlier = round - 1; earlier >= oldest; --earlier) {
    const auto keys = make_prefix_store(wire::round_prefix(run_id_, earlier), store);
    const auto there = keys->check({kAddressKey, kPortKey});
    if (!there) return tl::unexpected(there.error());
    if (!*there) continue;
    auto pair = read_pair(*keys);
    if (!pair) return tl::unexpected(pair.error());
    return std::move(*pair);
  }
  return std::nullopt;
}

}  // namespace regroup::runtime
