// The c10d backend: a dynamic rendezvous over a store at the endpoint, or in a file.
#include <fmt/core.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/endpoint.h"
#include "base/text.h"
#include "io/loop/clock.h"
#include "io/net/interfaces.h"
#include "regroup/rendezvous_backend.h"
#include "runtime/common/log.h"
#include "runtime/rendezvous/meet.h"
#include "runtime/rendezvous/rendezvous_creators.h"
#include "runtime/rendezvous/rendezvous_records.h"
#include "runtime/rendezvous/rendezvous_settings.h"
#include "runtime/rendezvous/rendezvous_store.h"
#include "runtime/rendezvous/this_node.h"
#include "runtime/rendezvous/wait_lines.h"
#include "runtime/session/session_crypto.h"
#include "runtime/store/store_channel.h"

namespace regroup::runtime {
namespace {

// The state is small and asked for all the time: a server that takes longer than this is gone, and
// the heartbeats must not wait a minute to find out.
Duration patience(Duration read_timeout, const core::rendezvous::Settings& settings) {
  const auto wanted = std::clamp<Duration>(settings.heartbeat_timeout, 5s, 60s);
  return std::min(read_timeout, wanted);
}

Result<Duration> read_timeout_of(const RendezvousParameters& parameters) {
  const auto seconds = parameters.integer("read_timeout");
  if (!seconds) return tl::unexpected(seconds.error());
  if (*seconds && **seconds <= 0)
    return fail(ErrorKind::InvalidArgument,
                fmt::format("read_timeout is {} s; it must be above zero", **seconds));
  return std::chrono::seconds(std::min<std::int64_t>(seconds->value_or(60), 1'000'000'000));
}

struct Limits {
  Duration each_try;
  Duration read_timeout;
};

// If this node serves the store, it does so for as long as a copy of this function exists. The name
// is looked up each time: a host may come back at another address.
StoreOpener opener(const std::shared_ptr<RendezvousStore>& found, RendezvousStoreOptions options,
                   const Limits& limits) {
  options.connect_timeout = limits.each_try;
  options.limit_name = "each try";
  options.read_timeout = limits.read_timeout;
  options.on_status = {};
  options.on_wait = {};
  return [found, options] {
    auto store = reopen_rendezvous_store(found->reached, options);
    const bool nobody = !store && store.error().kind == ErrorKind::Timeout;
    if (nobody) store.error().kind = ErrorKind::Connection;
    return store;
  };
}

// How long one try to get a session back may take: at the address that was reached, and then
// wherever the name leads.
constexpr Duration kKnownAddressLimit = 1s;
constexpr Duration kNameLimit = 2s;
// For each try to open the first session.
constexpr Duration kSessionLimit = 5s;
constexpr Duration kPauseBetweenTries = 100ms;

// None: the server is no coordinator, but PyTorch's.
Result<std::optional<OpenedSession>> open_session(const std::string& host, std::uint16_t port,
                                                  const Secret* secret, Duration limit) {
  const Instant deadline = io::deadline_after(limit);
  auto channel = StoreChannel::open(host, port, deadline);
  if (!channel) return tl::unexpected(channel.error());
  auto socket = channel->into_session(deadline);
  if (!socket) return tl::unexpected(socket.error());
  if (!*socket) return std::nullopt;
  auto opened = open_with_secret(std::move(**socket), secret, deadline);
  if (!opened) return tl::unexpected(opened.error());
  return std::move(*opened);
}

// The server has answered a moment ago; but it may be very busy, or be started again just now.
Result<std::optional<OpenedSession>> open_first_session(const RendezvousStore& found,
                                                        const RendezvousParameters& parameters,
                                                        const Secret* secret, Duration limit) {
  const Instant until = io::deadline_after(limit);
  WaitLines lines(parameters);
  lines.begin(io::now());
  for (;;) {
    auto opened = open_session(found.server_address, found.reached.port, secret, kSessionLimit);
    const bool may_pass = !opened && (opened.error().kind == ErrorKind::Connection ||
                                      opened.error().kind == ErrorKind::Timeout);
    if (!may_pass || io::now() >= until) return opened;
    if (parameters.interrupted && *parameters.interrupted)
      return fail(ErrorKind::Cancelled, "interrupted while waiting for the coordinator");
    const Instant now = io::now();
    lines.tell(now, {.what = fmt::format("no session with {}: {}", parameters.endpoint,
                                         opened.error().message),
                     .limit = "; gives up in " + in_words(until - now) + " (join_timeout)",
                     .brief = "waiting for the coordinator",
                     .until = until});
    std::this_thread::sleep_for(kPauseBetweenTries);
  }
}

std::function<Result<OpenedSession>()> session_opener(const std::string& address,
                                                      const Endpoint& reached,
                                                      const std::shared_ptr<const Secret>& secret) {
  return [address, reached, secret]() -> Result<OpenedSession> {
    auto opened = open_session(address, reached.port, secret.get(), kKnownAddressLimit);
    if (!opened && reached.host != address)
      opened = open_session(reached.host, reached.port, secret.get(), kNameLimit);
    if (!opened) return tl::unexpected(opened.error());
    if (!*opened) return fail(ErrorKind::Connection, "the server there is no coordinator");
    return std::move(**opened);
  };
}

// Without a coordinator, nothing would keep groups whole.
Result<void> check_shared_state_will_do(const RendezvousParameters& parameters,
                                        const AgentPart* part) {
  if (part == nullptr || part->rules.segment == 0) return {};
  return fail(ErrorKind::InvalidArgument,
              "--segment needs a coordinator, and there is none at " +
                  printable(parameters.endpoint) +
                  ": a store that regroup does not serve, or a session was not wanted");
}

// A run of one node at a port that nobody was told: its coordinator is in this process, and no
// other node can be meant to join. What others say to it through the port is no use to anybody.
bool is_for_this_process(const RendezvousParameters& parameters, const Endpoint& endpoint) {
  return endpoint.port == 0 && parameters.max_nodes == 1 && parameters.secret_file.empty();
}

std::string new_secret() {
  const auto bytes = new_nonce();
  return {bytes.begin(), bytes.end()};
}

// Null: none is wanted.
Result<std::shared_ptr<const Secret>> secret_of(const RendezvousParameters& parameters,
                                                const std::string& own_secret) {
  if (!own_secret.empty())
    return std::make_shared<const Secret>(Secret::of_this_process(own_secret));
  if (parameters.secret_file.empty()) return nullptr;
  auto secret = Secret::read(parameters.secret_file);
  if (!secret) return tl::unexpected(secret.error());
  if (!secret->warning().empty()) log_warning(secret->warning());
  return std::make_shared<const Secret>(std::move(*secret));
}

tl::unexpected<Error> no_session_for_secret() {
  return fail(ErrorKind::InvalidArgument,
              "a secret (--rdzv-secret-file) needs a session with a coordinator, over TCP: without "
              "session=false and store_type=file in --rdzv-conf");
}

struct FileChoices {
  Duration read_timeout{};
  core::rendezvous::Settings settings;
};

Result<FileChoices> read_file_choices(const RendezvousParameters& parameters,
                                      const AgentPart* part) {
  if (!parameters.secret_file.empty()) return no_session_for_secret();
  if (parameters.endpoint.empty())
    return fail(ErrorKind::InvalidArgument,
                "store_type=file needs an endpoint: the path of a file that all nodes share");
  if (auto good = check_shared_state_will_do(parameters, part); !good)
    return tl::unexpected(good.error());
  const auto read_timeout = read_timeout_of(parameters);
  if (!read_timeout) return tl::unexpected(read_timeout.error());
  const auto settings = settings_of(parameters);
  if (!settings) return tl::unexpected(settings.error());
  return FileChoices{.read_timeout = *read_timeout, .settings = *settings};
}

Result<std::unique_ptr<RendezvousHandler>> over_file(const RendezvousParameters& parameters,
                                                     const AgentPart* part) {
  const auto choices = read_file_choices(parameters, part);
  if (!choices) return tl::unexpected(choices.error());
  auto store = open_file_store({.path = parameters.endpoint, .timeout = choices->read_timeout});
  if (!store) return tl::unexpected(store.error());
  auto states = (*store)->clone();
  if (!states) return tl::unexpected(states.error());
  (*states)->set_timeout(patience(choices->read_timeout, choices->settings));
  auto backend = make_store_backend(*states, parameters.run_id);
  if (!backend) return tl::unexpected(backend.error());
  const std::string address =
      parameters.local_addr.empty() ? io::host_name() : parameters.local_addr;
  return make_dynamic_rendezvous(
      parameters, std::move(*backend), [store = *store] { return store->clone(); }, address);
}

struct TcpChoices {
  Endpoint endpoint;
  std::optional<bool> is_host;
  Duration read_timeout{};
  core::rendezvous::Settings settings;
  bool has_session = false;
};

Result<TcpChoices> read_tcp_choices(const RendezvousParameters& parameters, const AgentPart* part) {
  auto endpoint = parse_endpoint(parameters.endpoint, kRendezvousPort);
  if (!endpoint) return tl::unexpected(endpoint.error());
  const auto is_host = parameters.boolean("is_host");
  if (!is_host) return tl::unexpected(is_host.error());
  const auto read_timeout = read_timeout_of(parameters);
  if (!read_timeout) return tl::unexpected(read_timeout.error());
  const auto settings = settings_of(parameters);
  if (!settings) return tl::unexpected(settings.error());
  const auto wants_session = parameters.boolean("session");
  if (!wants_session) return tl::unexpected(wants_session.error());
  const bool has_session = part != nullptr && wants_session->value_or(true);
  if (!has_session && !parameters.secret_file.empty()) return no_session_for_secret();
  return TcpChoices{.endpoint = std::move(*endpoint),
                    .is_host = *is_host,
                    .read_timeout = *read_timeout,
                    .settings = *settings,
                    .has_session = has_session};
}

Result<Met> over_tcp(const RendezvousParameters& parameters, const AgentPart* part) {
  const auto choices = read_tcp_choices(parameters, part);
  if (!choices) return tl::unexpected(choices.error());
  const Duration read_timeout = choices->read_timeout;
  const core::rendezvous::Settings& settings = choices->settings;
  const std::string own_secret =
      choices->has_session && is_for_this_process(parameters, choices->endpoint) ? new_secret()
                                                                                 : "";
  const auto secret = secret_of(parameters, own_secret);
  if (!secret) return tl::unexpected(secret.error());

  RendezvousStoreOptions options{
      .endpoint = choices->endpoint,
      .is_host = choices->is_host,
      .secret_file = parameters.secret_file,
      .own_secret = own_secret,
      .local_addr = parameters.local_addr,
      .connect_timeout = settings.join_timeout,
      .read_timeout = read_timeout,
      .on_status = parameters.on_status ? parameters.on_status : log_info,
      .on_wait = parameters.on_wait,
      .cancelled = parameters.interrupted.get()};
  auto found = open_rendezvous_store(options);
  if (!found) return tl::unexpected(found.error());

  const auto owner = std::make_shared<RendezvousStore>(std::move(*found));
  if (owner->server) record_hosting(parameters.on_record, parameters.run_id);
  const StoreOpener open_store =
      opener(owner, options, {.each_try = 10s, .read_timeout = read_timeout});
  if (choices->has_session) {
    auto first = open_first_session(*owner, parameters, secret->get(), settings.join_timeout);
    if (!first && first.error().kind == ErrorKind::Refused)
      return fail(ErrorKind::Refused, parameters.endpoint + ": " + first.error().message);
    if (!first) return tl::unexpected(first.error());
    if (!*first && *secret != nullptr)
      return fail(ErrorKind::Unsupported,
                  "the store at " + parameters.endpoint +
                      " is no coordinator of regroup and knows no secret (--rdzv-secret-file)");
    if (*first) {
      if (auto good = check_addresses(parameters, owner->announced); !good)
        return tl::unexpected(good.error());
      CoordinatorContact contact{
          .settings = settings,
          .address = owner->announced,
          .first = std::move(**first),
          .connect = session_opener(owner->server_address, owner->reached, *secret),
          .open_store = open_store};
      if (owner->server) contact.sessions_here = [owner] { return owner->server->sessions(); };
      return Met(std::move(contact));
    }
  }
  if (auto good = check_shared_state_will_do(parameters, part); !good)
    return tl::unexpected(good.error());
  auto states = owner->store->clone();
  if (!states) return tl::unexpected(states.error());
  (*states)->set_timeout(patience(read_timeout, settings));
  // One try for the states; the caller that needs them decides how long to go on.
  const StoreOpener reopen_states =
      opener(owner, options, {.each_try = 2s, .read_timeout = patience(read_timeout, settings)});
  auto backend = make_store_backend(*states, parameters.run_id, reopen_states);
  if (!backend) return tl::unexpected(backend.error());
  auto handler =
      make_dynamic_rendezvous(parameters, std::move(*backend), open_store, owner->announced);
  if (!handler) return tl::unexpected(handler.error());
  return Met(std::move(*handler));
}

Result<Met> over_any(const RendezvousParameters& parameters, const AgentPart* part) {
  std::vector<std::string> known = settings_keys();
  known.insert(known.end(),
               {"store_type", "is_host", "read_timeout", "use_libuv", "timeout", "session"});
  warn_of_unknown_keys(parameters, known);
  const auto type = store_type_of(parameters);
  if (!type) return tl::unexpected(type.error());
  if (*type == StoreType::Tcp) return over_tcp(parameters, part);
  auto handler = over_file(parameters, part);
  if (!handler) return tl::unexpected(handler.error());
  return Met(std::move(*handler));
}

Result<Met> over_c10d(const RendezvousParameters& parameters, const AgentPart* part) {
  auto met = over_any(parameters, part);
  if (!met) record_no_backend(parameters.on_record, parameters.run_id, met.error());
  return met;
}

}  // namespace

Result<std::unique_ptr<RendezvousHandler>> make_c10d_rendezvous(
    const RendezvousParameters& parameters) {
  auto met = over_c10d(parameters, nullptr);
  if (!met) return tl::unexpected(met.error());
  return std::get<std::unique_ptr<RendezvousHandler>>(std::move(*met));
}

Result<void> check_meeting(const RendezvousParameters& parameters, const AgentPart& part) {
  if (auto known = check_backend(parameters.backend); !known) return known;
  if (auto settings = settings_of(parameters); !settings) return tl::unexpected(settings.error());
  if (auto good = check_groups(parameters, part.rules.segment); !good) return good;
  if (parameters.backend == "static") return check_static(parameters);
  if (parameters.backend != "c10d") return {};
  const auto type = store_type_of(parameters);
  if (!type) return tl::unexpected(type.error());
  if (*type == StoreType::File) {
    const auto read = read_file_choices(parameters, &part);
    return read ? Result<void>() : tl::unexpected(read.error());
  }
  const auto read = read_tcp_choices(parameters, &part);
  return read ? Result<void>() : tl::unexpected(read.error());
}

Result<Met> meet(const RendezvousParameters& parameters, const AgentPart& part) {
  if (auto good = check_meeting(parameters, part); !good) return tl::unexpected(good.error());
  if (parameters.backend == "c10d") return over_c10d(parameters, &part);
  auto handler = make_rendezvous(parameters);
  if (!handler) return tl::unexpected(handler.error());
  return Met(std::move(*handler));
}

}  // namespace regroup::runtime
