#include "runtime/rendezvous/rendezvous_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/endpoint.h"
#include "base/text.h"
#include "core/rendezvous/decide.h"
#include "core/rendezvous/describe.h"
#include "core/rendezvous/rank_order.h"
#include "io/loop/clock.h"
#include "regroup/rendezvous_backend.h"
#include "runtime/rendezvous/rendezvous_settings.h"
#include "wire/bytes/base64.h"
#include "wire/rendezvous/rendezvous_keys.h"
#include "wire/rendezvous/rendezvous_state.h"

namespace regroup::runtime {
namespace {

using core::rendezvous::name_of;
using core::rendezvous::NodeId;
using core::rendezvous::Stamp;
using core::rendezvous::State;

// Between two tries to close a run that others write to.
constexpr Duration kTryAgain = 20ms;

tl::unexpected<Error> no_such_run(const std::string& run_id, std::string_view why) {
  return fail(
      ErrorKind::Refused,
      fmt::format("no run {} here: {}. Check --rdzv-id and --rdzv-endpoint; nothing was changed",
                  printable(run_id), why));
}

tl::unexpected<Error> corrupt(const std::string& run_id, const std::string& why) {
  return fail(
      ErrorKind::Corrupt,
      fmt::format("the state of the run {}, in the key {} of the store, cannot be read: {}. It was "
                  "left as it is; use another run id, or delete the key if the run is over",
                  printable(run_id), printable(wire::state_key(run_id)), why));
}

Result<void> check_that_it_is_there(Store& store, const std::string& run_id) {
  if (run_id.empty())
    return fail(ErrorKind::InvalidArgument, "the run id is empty. Give the --rdzv-id of the run");
  // Reading a key that is missing would wait for it.
  const auto there = store.check({wire::state_key(run_id)});
  if (!there) return tl::unexpected(there.error());
  if (!*there) return no_such_run(run_id, "nobody has started it");
  return {};
}

Result<State> decode(const std::string& bytes, const std::string& run_id) {
  auto state = wire::decode_state(bytes);
  if (!state) return corrupt(run_id, state.error().message);
  return std::move(*state);
}

// While the round is open: in the order that the ranks would have if it were sealed now.
std::vector<NodeId> by_rank(const State& state) {
  if (!state.complete) return core::rendezvous::rank_order(state);
  std::vector<NodeId> nodes;
  nodes.reserve(state.participants.size());
  for (const auto& [node, rank] : state.participants) nodes.push_back(node);
  std::sort(nodes.begin(), nodes.end(), [&](const NodeId& a, const NodeId& b) {
    return state.participants.at(a) < state.participants.at(b);
  });
  return nodes;
}

Duration since(Stamp then, Stamp now) {
  // Stamps come from other machines: their difference may be more than fits.
  const double micros = static_cast<double>(now.micros) - static_cast<double>(then.micros);
  constexpr double kCentury = 100.0 * 365 * 24 * 3600 * 1e6;
  return std::chrono::microseconds(
      static_cast<std::int64_t>(std::clamp(micros, -kCentury, kCentury)));
}

std::string age_of_heartbeat(const State& state, const NodeId& node, Stamp now) {
  const auto found = state.last_heartbeats.find(node);
  if (found == state.last_heartbeats.end()) return "never";
  const Duration age = since(found->second, now);
  if (age < -1s) return in_words(-age) + " ahead of our clock";
  return in_words(std::max(age, Duration::zero())) + " ago";
}

using Row = std::vector<std::string>;

Row row_of(const State& state, const NodeId& node, std::string place, Stamp now) {
  const auto claim = state.claims.find(node);
  const bool is_regroup = claim != state.claims.end();
  std::string program = is_regroup ? "regroup" : "torchrun";
  if (is_regroup && claim->second.wish)
    program += fmt::format(" (wants rank {})", *claim->second.wish);
  return {std::move(place),    plain(name_of(state, node)),
          plain(node.address), std::to_string(node.pid),
          std::move(program),  age_of_heartbeat(state, node, now)};
}

std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    text += " ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += " " + row[i];
      if (i + 1 < row.size()) text += std::string(widths[i] - row[i].size() + 1, ' ');
    }
    text += "\n";
  }
  return text;
}

std::string stage_of(const State& state) {
  if (state.closed) return "closed: the run is over, nobody can join it";
  if (!state.complete)
    return state.participants.empty() ? "open: nobody is in it" : "open: nodes are joining";
  if (!is_whole(state)) return "complete, but members have left since";
  return "complete: the nodes have their ranks";
}

std::string last_call(const State& state, Stamp now) {
  if (!state.deadline || state.complete || state.closed) return "";
  const Duration left = -since(*state.deadline, now);
  return left > Duration::zero() ? "last call: ends in " + in_words(left) + "\n"
                                 : "last call: over since " + in_words(-left) + "\n";
}

}  // namespace

std::string plain(const std::string& name) {
  const bool harmless = !name.empty() && std::all_of(name.begin(), name.end(),
                                                     [](char c) { return c > ' ' && c < 0x7f; });
  return harmless ? name : printable(name);
}

Stamp stamp_now() { return Stamp{io::utc_micros()}; }

Result<std::shared_ptr<Store>> open_run_store(const RendezvousParameters& parameters,
                                              Duration limit) {
  const auto type = store_type_of(parameters);
  if (!type) return tl::unexpected(type.error());
  if (*type == StoreType::File) {
    std::error_code error;
    if (!std::filesystem::exists(parameters.endpoint, error))
      return fail(ErrorKind::Connection, "there is no file " + printable(parameters.endpoint) +
                                             ": nobody has started a run there");
    return open_file_store({.path = parameters.endpoint, .timeout = limit, .only_look = true});
  }
  const auto endpoint = parse_endpoint(parameters.endpoint, kRendezvousPort);
  if (!endpoint) return tl::unexpected(endpoint.error());
  if (endpoint->port == 0)
    return fail(ErrorKind::InvalidArgument,
                printable(parameters.endpoint) + " has port 0; write the port of the run's store");
  return connect_tcp_store({.host = endpoint->host, .port = endpoint->port, .timeout = limit});
}

Result<State> look_at_run(Store& store, const std::string& run_id) {
  if (auto there = check_that_it_is_there(store, run_id); !there)
    return tl::unexpected(there.error());
  const auto text = store.get(wire::state_key(run_id));
  if (!text) return tl::unexpected(text.error());
  if (*text == wire::kNoState) return no_such_run(run_id, "no node has joined it yet");
  const auto bytes = wire::decode_base64(*text);
  if (!bytes) return corrupt(run_id, bytes.error().message);
  return decode(*bytes, run_id);
}

std::string describe_run(const std::string& run_id, const State& state, Stamp now) {
  std::string text = fmt::format("run {}, round {}\n{}\n{}", printable(run_id), state.round,
                                 stage_of(state), last_call(state, now));
  std::vector<Row> rows{{"rank", "node", "address", "pid", "program", "last heartbeat"}};
  for (const NodeId& node : by_rank(state))
    rows.push_back(row_of(state, node,
                          state.complete ? std::to_string(state.participants.at(node)) : "-", now));
  for (const NodeId& node : state.wait_list) rows.push_back(row_of(state, node, "waits", now));
  for (const NodeId& node : state.redundancy_list)
    rows.push_back(row_of(state, node, "spare", now));
  text += describe_nodes(state) + "\n";
  if (rows.size() == 1) return text;
  return text + table(rows) +
         "All times are by this machine's clock; those of the nodes may differ from it.\n";
}

std::string describe_nodes(const State& state) {
  std::string names;
  for (const NodeId& node : by_rank(state))
    names += (names.empty() ? " (" : ", ") + plain(name_of(state, node));
  return fmt::format("{}{}, {} waiting, {}", count_of(state.participants.size(), "node"),
                     names.empty() ? "" : names + ")", state.wait_list.size(),
                     count_of(state.redundancy_list.size(), "spare"));
}

Result<Closing> close_run(const std::shared_ptr<Store>& store, const std::string& run_id,
                          Duration limit) {
  // Before there is a backend, because making one makes the key.
  if (auto there = look_at_run(*store, run_id); !there) return tl::unexpected(there.error());
  auto backend = make_store_backend(store, run_id);
  if (!backend) return tl::unexpected(backend.error());
  const Instant give_up = io::deadline_after(limit);
  for (;;) {
    auto present = (*backend)->get_state();
    if (!present) return tl::unexpected(present.error());
    if (!*present) return no_such_run(run_id, "no node has joined it yet");
    auto state = decode((*present)->bytes, run_id);
    if (!state) return tl::unexpected(state.error());
    if (state->closed) return Closing{.was_closed = true, .state = std::move(*state)};
    const std::string left = phase(*state);
    state->closed = true;
    const auto answer = (*backend)->set_state(wire::encode_state(*state), (*present)->token);
    if (!answer) return tl::unexpected(answer.error());
    if (answer->won) {
      (*backend)->announce_left(left);  // Nodes that wait for the round wake, and see it.
      return Closing{.was_closed = false, .state = std::move(*state)};
    }
    if (io::now() > give_up)
      return fail(ErrorKind::Timeout, fmt::format("the run {} could not be closed within {}: too "
                                                  "many nodes write at the same time. Try again",
                                                  printable(run_id), in_words(limit)));
    std::this_thread::sleep_for(kTryAgain);
  }
}

}  // namespace regroup::runtime
