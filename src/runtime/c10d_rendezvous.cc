// The c10d backend: a dynamic rendezvous over a store at the endpoint, or in a file.
#include <algorithm>
#include <utility>

#include "base/endpoint.h"
#include "io/interfaces.h"
#include "regroup/rendezvous_backend.h"
#include "runtime/log.h"
#include "runtime/meeting_store.h"
#include "runtime/rendezvous_creators.h"
#include "runtime/rendezvous_settings.h"

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
                "read_timeout is " + std::to_string(**seconds) + " s; it must be above zero");
  return std::chrono::seconds(std::min<std::int64_t>(seconds->value_or(60), 1'000'000'000));
}

struct Limits {
  Duration each_try;
  Duration read_timeout;
};

// If this node serves the store, it does so for as long as somebody has such a function. The name
// is looked up each time: a host may come back at another address.
StoreOpener opener(const std::shared_ptr<MeetingStore>& meeting, MeetingStoreOptions options,
                   const Limits& limits) {
  options.connect_timeout = limits.each_try;
  options.limit_name = "each try";
  options.read_timeout = limits.read_timeout;
  options.on_status = {};
  options.on_wait = {};
  return [meeting, options] {
    auto store = reopen_meeting_store(meeting->reached, options);
    const bool nobody = !store && store.error().kind == ErrorKind::Timeout;
    if (nobody) store.error().kind = ErrorKind::Connection;
    return store;
  };
}

Result<std::unique_ptr<RendezvousHandler>> over_file(const RendezvousParameters& parameters) {
  if (parameters.endpoint.empty())
    return fail(ErrorKind::InvalidArgument,
                "store_type=file needs an endpoint: the path of a file that all nodes share");
  const auto read_timeout = read_timeout_of(parameters);
  if (!read_timeout) return tl::unexpected(read_timeout.error());
  const auto settings = settings_of(parameters);
  if (!settings) return tl::unexpected(settings.error());
  auto store = open_file_store({.path = parameters.endpoint, .timeout = *read_timeout});
  if (!store) return tl::unexpected(store.error());
  auto states = (*store)->clone();
  if (!states) return tl::unexpected(states.error());
  (*states)->set_timeout(patience(*read_timeout, *settings));
  auto backend = make_store_backend(*states, parameters.run_id);
  if (!backend) return tl::unexpected(backend.error());
  const std::string address =
      parameters.local_addr.empty() ? io::host_name() : parameters.local_addr;
  return make_dynamic_rendezvous(
      parameters, std::move(*backend), [store = *store] { return store->clone(); }, address);
}

Result<std::unique_ptr<RendezvousHandler>> over_tcp(const RendezvousParameters& parameters) {
  const auto endpoint = parse_endpoint(parameters.endpoint, kRendezvousPort);
  if (!endpoint) return tl::unexpected(endpoint.error());
  const auto is_host = parameters.boolean("is_host");
  if (!is_host) return tl::unexpected(is_host.error());
  const auto read_timeout = read_timeout_of(parameters);
  if (!read_timeout) return tl::unexpected(read_timeout.error());
  const auto settings = settings_of(parameters);
  if (!settings) return tl::unexpected(settings.error());

  MeetingStoreOptions options{.endpoint = *endpoint,
                              .is_host = *is_host,
                              .local_addr = parameters.local_addr,
                              .connect_timeout = settings->join_timeout,
                              .read_timeout = *read_timeout,
                              .on_status = parameters.on_status ? parameters.on_status : log_info,
                              .on_wait = parameters.on_wait,
                              .cancelled = parameters.interrupted.get()};
  auto meeting = open_meeting_store(options);
  if (!meeting) return tl::unexpected(meeting.error());

  const auto owner = std::make_shared<MeetingStore>(std::move(*meeting));
  auto states = owner->store->clone();
  if (!states) return tl::unexpected(states.error());
  (*states)->set_timeout(patience(*read_timeout, *settings));
  // One try of many, for the states: whoever needs them decides how long to go on.
  const StoreOpener reopen_states =
      opener(owner, options, {.each_try = 2s, .read_timeout = patience(*read_timeout, *settings)});
  auto backend = make_store_backend(*states, parameters.run_id, reopen_states);
  if (!backend) return tl::unexpected(backend.error());
  const StoreOpener open_store =
      opener(owner, options, {.each_try = 10s, .read_timeout = *read_timeout});
  return make_dynamic_rendezvous(parameters, std::move(*backend), open_store, owner->announced);
}

}  // namespace

Result<std::unique_ptr<RendezvousHandler>> make_c10d_rendezvous(
    const RendezvousParameters& parameters) {
  std::vector<std::string> known = settings_keys();
  known.insert(known.end(), {"store_type", "is_host", "read_timeout", "use_libuv", "timeout"});
  warn_of_unknown_keys(parameters, known);
  const auto type = store_type_of(parameters);
  if (!type) return tl::unexpected(type.error());
  return *type == StoreType::File ? over_file(parameters) : over_tcp(parameters);
}

}  // namespace regroup::runtime
