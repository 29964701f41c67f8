// The c10d backend: a dynamic rendezvous over a store at the endpoint, or in a file.
#include <algorithm>
#include <utility>

#include "base/endpoint.h"
#include "base/text.h"
#include "io/interfaces.h"
#include "regroup/rendezvous_backend.h"
#include "runtime/log.h"
#include "runtime/meeting_store.h"
#include "runtime/rendezvous_creators.h"
#include "runtime/rendezvous_settings.h"

namespace regroup::runtime {
namespace {

constexpr std::uint16_t kDefaultPort = 29400;

Result<std::unique_ptr<RendezvousHandler>> over_file(const RendezvousParameters& parameters) {
  if (parameters.endpoint.empty())
    return fail(ErrorKind::InvalidArgument,
                "store_type=file needs an endpoint: the path of a file that all nodes share");
  auto store = open_file_store({.path = parameters.endpoint});
  if (!store) return tl::unexpected(store.error());
  auto backend = make_store_backend(*store, parameters.run_id);
  if (!backend) return tl::unexpected(backend.error());
  const std::string address =
      parameters.local_addr.empty() ? io::host_name() : parameters.local_addr;
  return make_dynamic_rendezvous(parameters, std::move(*backend), *store, address);
}

Result<std::unique_ptr<RendezvousHandler>> over_tcp(const RendezvousParameters& parameters) {
  const auto endpoint = parse_endpoint(parameters.endpoint, kDefaultPort);
  if (!endpoint) return tl::unexpected(endpoint.error());
  const auto is_host = parameters.boolean("is_host");
  if (!is_host) return tl::unexpected(is_host.error());
  const auto read_timeout = parameters.integer("read_timeout");
  if (!read_timeout) return tl::unexpected(read_timeout.error());
  if (*read_timeout && **read_timeout <= 0)
    return fail(ErrorKind::InvalidArgument,
                "read_timeout is " + std::to_string(**read_timeout) + " s; it must be above zero");
  const auto settings = settings_of(parameters);
  if (!settings) return tl::unexpected(settings.error());

  MeetingStoreOptions options{.endpoint = *endpoint,
                              .is_host = *is_host,
                              .local_addr = parameters.local_addr,
                              .connect_timeout = settings->join_timeout,
                              .read_timeout = std::chrono::seconds(std::min<std::int64_t>(
                                  read_timeout->value_or(60), 1'000'000'000)),
                              .on_status = parameters.on_status ? parameters.on_status : log_info,
                              .cancelled = parameters.interrupted.get()};
  auto meeting = open_meeting_store(options);
  if (!meeting) return tl::unexpected(meeting.error());

  // The state is small and asked for all the time: a server that takes longer than this is gone,
  // and the heartbeats must not wait a minute to find out.
  const Duration patience = std::max<Duration>(10s, 2 * settings->heartbeat_timeout);
  auto states = meeting->store->clone();
  if (!states) return tl::unexpected(states.error());
  (*states)->set_timeout(std::min(options.read_timeout, patience));
  MeetingStoreOptions again = options;
  again.connect_timeout = settings->heartbeat_timeout;
  again.read_timeout = std::min(options.read_timeout, patience);
  again.on_status = {};
  again.cancelled = nullptr;
  auto backend = make_store_backend(
      *states, parameters.run_id,
      [again, reached = meeting->reached] { return reopen_meeting_store(reached, again); });
  if (!backend) return tl::unexpected(backend.error());
  // If this node serves the store, it does so for as long as the handler has it.
  const auto owner = std::make_shared<MeetingStore>(std::move(*meeting));
  return make_dynamic_rendezvous(parameters, std::move(*backend),
                                 std::shared_ptr<Store>(owner, owner->store.get()),
                                 owner->announced);
}

}  // namespace

Result<std::unique_ptr<RendezvousHandler>> make_c10d_rendezvous(
    const RendezvousParameters& parameters) {
  std::vector<std::string> known = settings_keys();
  known.insert(known.end(), {"store_type", "is_host", "read_timeout", "use_libuv", "timeout"});
  warn_of_unknown_keys(parameters, known);
  const std::string type = parameters.text("store_type").value_or("tcp");
  std::string lower;
  for (const char c : type) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower == "tcp") return over_tcp(parameters);
  if (lower == "file") return over_file(parameters);
  return fail(ErrorKind::InvalidArgument, "the rendezvous option store_type is " + printable(type) +
                                              "; it must be tcp or file");
}

}  // namespace regroup::runtime
