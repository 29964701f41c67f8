#include "runtime/rendezvous/rendezvous_store.h"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/loop/clock.h"
#include "io/loop/thread_name.h"
#include "io/net/address.h"
#include "io/net/interfaces.h"
#include "io/net/port_holder.h"
#include "runtime/common/backoff.h"
#include "runtime/store/store_channel.h"
#include "runtime/store/tcp_store.h"

namespace regroup::runtime {
namespace {

using Addresses = std::vector<io::Address>;
using Failure = StoreChannel::Failure;

template <class T>
using Attempt = tl::expected<T, Failure>;

// How often a waiting call looks whether it was told to stop, and whether a line is due.
constexpr Duration kTick = 100ms;
// For one try. A server that takes our connection and is silent for so long is stuck, or has gone
// since; a new connection will tell.
constexpr Duration kTryLimit = 20s;
// How long a host may take to learn its own address. It can do without it.
constexpr Duration kOwnNameLimit = 2s;

bool same_name(const std::string& a, const std::string& b) {
  return ::strcasecmp(a.c_str(), b.c_str()) == 0;
}

bool is_localhost(const std::string& host) { return same_name(host, "localhost"); }

// A machine full of containers has hundreds of addresses, too many for a message.
std::string list(const Addresses& addresses) {
  constexpr std::size_t kMost = 16;
  std::string text;
  for (std::size_t i = 0; i < std::min(addresses.size(), kMost); ++i)
    text += (i == 0 ? "" : ", ") + io::host_text(addresses[i]);
  if (addresses.size() > kMost) text += ", …";
  return text;
}

Addresses own_addresses() { return io::local_addresses().value_or(Addresses{}); }

Addresses loopback(std::uint16_t port) {
  return {*io::literal_address("127.0.0.1", port), *io::literal_address("::1", port)};
}

class Search {
 public:
  enum class Role {
    Host,    // is_host=true.
    Either,  // Host if it is the first to bind an endpoint that is its own, else client.
    Client,  // is_host=false.
    Again,   // A client that comes back.
  };

  Search(Endpoint endpoint, const RendezvousStoreOptions& options, Role role)
      : endpoint_(std::move(endpoint)),
        options_(options),
        role_(role),
        literal_(io::literal_address(endpoint_.host)),
        begun_(io::now()),
        deadline_(io::deadline_after(options.connect_timeout)),
        next_status_(io::now() + options.first_status) {}

  Result<RendezvousStore> run() {
    // Two nodes that start at the same moment find each other within milliseconds; nodes that wait
    // for minutes may be thousands, and must not keep the host from its work.
    Backoff backoff(50ms, 1200ms);
    for (;;) {
      auto met = try_once();
      if (met) return std::move(*met);
      note(met.error());
      if (!last_.may_pass()) return fail(last_.why.kind, describe_end());
      const Duration left = deadline_ - io::now();
      if (left < kTick / 2) return fail(ErrorKind::Timeout, describe_end());
      // Half of what is left at most, so that the last try comes shortly before the end.
      const Instant next = io::now() + std::min(backoff.next(), left / 2);
      while (io::now() < next) {
        if (is_cancelled()) return fail(ErrorKind::Cancelled, cancelled_message());
        report_if_due();
        std::this_thread::sleep_for(std::min(kTick, std::max(next - io::now(), Duration{})));
      }
    }
  }

 private:
  void note(const Failure& failure) {
    // A try that our own deadline cut short says less than the one before it.
    const bool cut_short = failure.may_pass() && io::now() >= deadline_;
    if (!cut_short || !tried_) last_ = failure;
    tried_ = true;
  }

  Attempt<RendezvousStore> try_once() {
    const bool owner = owns_by_word();
    if (owner && server_ == nullptr) {
      if (auto served = serve(); !served) return tl::unexpected(served.error());
    }
    if (server_ != nullptr) return meet(own_end());

    auto found = look_up(deadline_);
    resolved_ = found.value_or(Addresses{});
    // Our own name may be known to no name service.
    if (!found && is_own_name()) found = loopback(endpoint_.port);
    if (!found) return tl::unexpected(found.error());
    if (role_ == Role::Either && !owner && owns_one_of(resolved_)) {
      if (auto served = serve(); !served) return tl::unexpected(served.error());
      if (server_ != nullptr) return meet(own_end());
    }
    if (endpoint_.port == 0) return tl::unexpected(no_port());
    return meet(found);
  }

  Failure no_port() const {
    if (!not_host_because_.empty()) return {{ErrorKind::Io, not_host_because_}, false};
    return {{ErrorKind::InvalidArgument,
             "port 0 means any free port, which only the node that hosts the store can choose. "
             "Write the port of the store, or pass is_host=true in --rdzv-conf"},
            false};
  }

  // Without asking for any address, so that no name service is needed.
  bool owns_by_word() const {
    if (role_ == Role::Either) return is_localhost(endpoint_.host) || is_own_name();
    return role_ == Role::Host;
  }

  bool is_own_name() const { return !literal_ && same_name(endpoint_.host, io::host_name()); }

  static bool owns_one_of(const Addresses& addresses) {
    const Addresses own = own_addresses();
    return std::any_of(addresses.begin(), addresses.end(),
                       [&](const io::Address& one) { return io::is_local(one, own); });
  }

  // Becomes host, or learns why not. That is a failure only for a node that was told to be host;
  // for any other, another process of this machine was faster, and can be reached.
  Attempt<void> serve() {
    StoreServerOptions where{.host = "::",
                             .port = endpoint_.port,
                             .coordinator = true,
                             .secret_file = options_.secret_file,
                             .own_secret = options_.own_secret};
    if (literal_) where.host = endpoint_.host;
    if (is_localhost(endpoint_.host)) where.host = "localhost";
    auto started = StoreServer::start(where);
    if (started) {
      server_ = std::move(*started);
      endpoint_.port = server_->port();
      return {};
    }
    if (role_ == Role::Host) {
      started.error().message = io::name_port_holder(started.error().message, endpoint_.port);
      return tl::unexpected(Failure{started.error(), false});
    }
    not_host_because_ = started.error().message;
    return {};
  }

  // Where the host reaches its own store: at the address that others use too, if it has one.
  Attempt<Addresses> own_end() {
    auto found = look_up(std::min(deadline_, io::deadline_after(kOwnNameLimit)));
    if (!found && found.error().why.kind == ErrorKind::Cancelled) return found;
    Addresses usable = found.value_or(Addresses{});
    const Addresses own = own_addresses();
    std::erase_if(usable, [&](const io::Address& one) { return !io::is_local(one, own); });
    return usable.empty() ? loopback(endpoint_.port) : usable;
  }

  Attempt<Addresses> look_up(Instant deadline) {
    if (literal_) {
      literal_->set_port(endpoint_.port);
      return Addresses{*literal_};
    }
    return run_interruptibly(
        [host = endpoint_.host, port = endpoint_.port, deadline]() -> Attempt<Addresses> {
          auto found = io::resolve(host, port, deadline);
          if (!found) return tl::unexpected(Failure{found.error(), false});
          return *found;
        });
  }

  Attempt<RendezvousStore> meet(const Attempt<Addresses>& where) {
    if (!where) return tl::unexpected(where.error());
    const Instant deadline = std::min(deadline_, io::deadline_after(kTryLimit));
    auto channel = run_interruptibly(
        [addresses = *where, deadline] { return StoreChannel::try_once(addresses, deadline); });
    if (!channel) return tl::unexpected(channel.error());
    RendezvousStore met;
    met.reached = endpoint_;
    met.announced = choose_announced(channel->local_address());
    met.server_address = io::host_text(channel->address());
    // A clone goes to the very same server, and needs no name service for it.
    const TcpStoreOptions again{
        .host = met.server_address, .port = endpoint_.port, .timeout = options_.read_timeout};
    met.store = make_tcp_store(again, std::move(*channel));
    met.server = std::move(server_);
    return met;
  }

  std::string choose_announced(const io::Address& local_end) const {
    if (!options_.local_addr.empty()) return options_.local_addr;
    // The kernel may prefer another address of ours even to reach this one.
    if (server_ != nullptr && literal_ && !io::is_wildcard(*literal_))
      return io::host_text(*literal_);
    const bool meant = is_localhost(endpoint_.host) || (literal_ && io::is_loopback(*literal_));
    if (!io::is_loopback(local_end) || meant) return io::host_text(local_end);
    if (!literal_ || !io::is_wildcard(*literal_)) return endpoint_.host;
    // "0.0.0.0" says nothing to others. An address that leads somewhere is the best there is.
    for (const io::Address& own : own_addresses())
      if (!io::is_loopback(own) && !io::is_link_local(own)) return io::host_text(own);
    return io::host_text(local_end);
  }

  // Runs `work`, which may block until our deadline, on a thread of its own. Meanwhile this thread
  // can be told to stop, and reports what it waits for. The two share nothing but the answer.
  template <class Work>
  auto run_interruptibly(Work work) -> decltype(work()) {
    std::promise<decltype(work())> promise;
    auto answer = promise.get_future();
    try {
      std::thread([work = std::move(work), promise = std::move(promise)]() mutable {
        io::name_this_thread("store search");
        promise.set_value(work());
      }).detach();
    } catch (const std::system_error& error) {
      return failure(ErrorKind::Io, std::string("no thread for connecting: ") + error.what());
    }
    while (answer.wait_for(kTick) != std::future_status::ready) {
      if (is_cancelled()) return failure(ErrorKind::Cancelled, "told to stop");
      report_if_due();
    }
    return answer.get();
  }

  static tl::unexpected<Failure> failure(ErrorKind kind, std::string message) {
    return tl::unexpected(Failure{{kind, std::move(message)}, false});
  }

  bool is_cancelled() const {
    return options_.cancelled != nullptr && options_.cancelled->load(std::memory_order_relaxed);
  }

  std::string where() const { return io::join_host_port(endpoint_.host, endpoint_.port); }

  void report_if_due() {
    const Instant now = io::now();
    if (options_.on_wait && !std::exchange(shown_, true))
      options_.on_wait({.text = "waiting for the store at " + where(),
                        .so_far = now - begun_,
                        .left = deadline_ - now});
    if (now < next_status_ || !options_.on_status) return;
    next_status_ = now + options_.status_interval;
    std::string line = fmt::format(
        "waiting for the store at {}: {}; gives up in {} ({})", where(), last_.why.message,
        in_words(std::max(deadline_ - now, Duration{})), options_.limit_name);
    // The long part is said once, and again only when it has changed.
    if (std::string hint = describe_circumstances(); hint != hinted_) {
      line += ". " + hint;
      hinted_ = std::move(hint);
    }
    options_.on_status(line);
  }

  // What people need to know to see why no store answers.
  std::string describe_circumstances() const {
    if (last_.answered) return last_.advice();
    if (role_ == Role::Again || server_ != nullptr) return "Is the node that hosts it still up?";
    // Looked up here only: mostly it is another node of the run, which can be reached.
    if (!not_host_because_.empty())
      return "This machine would host it, but " +
             io::name_port_holder(not_host_because_, endpoint_.port);
    Addresses own = own_addresses();
    std::erase_if(
        own, [](const io::Address& one) { return io::is_loopback(one) || io::is_link_local(one); });
    std::string text = "This machine";
    if (!literal_)
      text = endpoint_.host + (resolved_.empty() ? " has no address" : " is " + list(resolved_)) +
             "; this machine";
    text += fmt::format(", {}, has {} and does not host the store{}", io::host_name(),
                        own.empty() ? "none that others could reach" : list(own),
                        role_ == Role::Client ? " (is_host=false)" : "");
    return text + ". " + options_.host_advice;
  }

  std::string cancelled_message() const {
    return "gave up waiting for the store at " + where() + ": told to stop";
  }

  std::string describe_end() const {
    switch (last_.why.kind) {
      case ErrorKind::Cancelled:
        return cancelled_message();
      case ErrorKind::Protocol:
        return fmt::format(
            "cannot meet at {}: {}. Another program listens there: stop it, or use another port "
            "for the run.",
            where(), last_.why.message);
      case ErrorKind::Timeout:
      case ErrorKind::Connection:
        return fmt::format("no store at {} within {} ({}): {}. {}", where(),
                           in_words(options_.connect_timeout), options_.limit_name,
                           last_.why.message, describe_circumstances());
      case ErrorKind::InvalidArgument:
      case ErrorKind::Refused:
      case ErrorKind::Unsupported:
      case ErrorKind::Io:
      case ErrorKind::Closed:
      case ErrorKind::Corrupt:
      case ErrorKind::NotNeeded:
        break;
    }
    return fmt::format("cannot meet at {}: {}", where(), last_.why.message);
  }

  Endpoint endpoint_;  // Its port becomes the one that was bound.
  const RendezvousStoreOptions& options_;
  const Role role_;
  std::optional<io::Address> literal_;  // The endpoint's host, where it is no name.
  const Instant begun_;
  const Instant deadline_;
  Instant next_status_;
  std::unique_ptr<StoreServer> server_;
  Addresses resolved_;
  Failure last_{{ErrorKind::Timeout, "no answer yet"}, false};
  bool tried_ = false;
  std::string not_host_because_;
  std::string hinted_;
  bool shown_ = false;  // Whether on_wait has been told that we wait.
};

Result<void> check_options(const Endpoint& endpoint, const RendezvousStoreOptions& options) {
  if (endpoint.host.empty())
    return fail(ErrorKind::InvalidArgument, "no host was given for the store of the run");
  if (options.connect_timeout <= Duration{} || options.read_timeout <= Duration{})
    return fail(ErrorKind::InvalidArgument,
                std::string(options.limit_name) + " and read_timeout must be longer than zero");
  return {};
}

}  // namespace

Result<RendezvousStore> open_rendezvous_store(const RendezvousStoreOptions& options) {
  if (auto good = check_options(options.endpoint, options); !good)
    return tl::unexpected(good.error());
  auto role = Search::Role::Either;
  if (options.is_host) role = *options.is_host ? Search::Role::Host : Search::Role::Client;
  return Search(options.endpoint, options, role).run();
}

Result<std::shared_ptr<Store>> reopen_rendezvous_store(const Endpoint& reached,
                                                       const RendezvousStoreOptions& options) {
  if (auto good = check_options(reached, options); !good) return tl::unexpected(good.error());
  auto met = Search(reached, options, Search::Role::Again).run();
  if (!met) return tl::unexpected(met.error());
  return met->store;
}

}  // namespace regroup::runtime
