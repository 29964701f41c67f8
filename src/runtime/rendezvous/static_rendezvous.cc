// The static backend: ranks are given beforehand, and no node comes or goes. The nodes only wait
// for each other once, at the store that rank 0 serves.
#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "base/endpoint.h"
#include "base/text.h"
#include "io/loop/clock.h"
#include "runtime/common/limits.h"
#include "runtime/common/log.h"
#include "runtime/rendezvous/rendezvous_creators.h"
#include "runtime/rendezvous/rendezvous_settings.h"
#include "runtime/rendezvous/rendezvous_store.h"
#include "runtime/store/tcp_store.h"

namespace regroup::runtime {
namespace {

constexpr std::int64_t kDefaultTimeout = 900;  // Seconds; what torchrun's launcher passes.
constexpr Duration kLook = 10ms;

class StaticHandler final : public RendezvousHandler {
 public:
  StaticHandler(RendezvousParameters parameters, Endpoint endpoint, std::int64_t rank,
                Duration timeout)
      : parameters_(std::move(parameters)),
        endpoint_(std::move(endpoint)),
        rank_(rank),
        timeout_(timeout) {}

  std::string backend() const override { return "static"; }
  std::string run_id() const override { return parameters_.run_id; }

  Result<RendezvousInfo> next_rendezvous() override {
    const std::lock_guard lock(mutex_);
    if (!found_) {
      if (auto met = meet(); !met) return tl::unexpected(met.error());
    }
    auto store = found_->store->clone();
    if (!store) return tl::unexpected(store.error());
    return RendezvousInfo{.store = make_prefix_store(run_id(), std::move(*store)),
                          .round = 0,
                          .rank = rank_,
                          .world_size = parameters_.max_nodes,
                          .bootstrap = {.address = endpoint_.host, .port = endpoint_.port},
                          .nodes = {}};
  }

  Result<bool> is_closed() override { return false; }
  Result<std::int64_t> num_nodes_waiting() override { return 0; }
  Result<RendezvousStatus> status() override { return RendezvousStatus{}; }
  Result<void> set_closed() override { return {}; }
  Result<void> shutdown() override { return {}; }
  Result<void> leave() override { return {}; }
  bool use_agent_store() const override { return true; }

 private:
  Result<void> meet() {
    const Instant give_up = io::deadline_after(timeout_);
    auto found = open_rendezvous_store({.endpoint = endpoint_,
                                        .is_host = rank_ == 0,
                                        .local_addr = parameters_.local_addr,
                                        .connect_timeout = timeout_,
                                        .read_timeout = timeout_,
                                        .on_status = [this](const std::string& line) { say(line); },
                                        .on_wait = parameters_.on_wait,
                                        .cancelled = parameters_.interrupted.get(),
                                        .limit_name = "timeout",
                                        .host_advice = "Start the node with rank 0 there."});
    if (!found) return tl::unexpected(found.error());
    auto come = add_workers(*found->store, 1);
    if (!come) return tl::unexpected(come.error());
    // As torchrun's: only the host waits for all; the others wait for keys, later on.
    if (rank_ == 0) {
      if (auto all = await_all(*found->store, give_up); !all) return all;
    }
    found_ = std::move(*found);
    return {};
  }

  Result<void> await_all(Store& store, Instant give_up) {
    const Instant begun = io::now();
    Instant last_said = begun;
    std::int64_t shown = -1;
    for (;;) {
      const auto come = add_workers(store, 0);
      if (!come) return tl::unexpected(come.error());
      if (*come >= parameters_.max_nodes) return {};
      const Instant now = io::now();
      const std::string how_many =
          fmt::format("{} of {} nodes have come", *come, parameters_.max_nodes);
      if (now > give_up)
        return fail(ErrorKind::Timeout,
                    fmt::format("the nodes did not meet within {} (timeout): {}",
                                in_words(timeout_), how_many));
      if (parameters_.interrupted && *parameters_.interrupted)
        return fail(ErrorKind::Cancelled, "interrupted while waiting for the other nodes");
      if (parameters_.on_wait && std::exchange(shown, *come) != *come)
        parameters_.on_wait(
            {.text = fmt::format("waiting for nodes: {} of {} here", *come, parameters_.max_nodes),
             .so_far = now - begun,
             .left = give_up - now});
      if (now - last_said >= kSayAgain) {
        last_said = now;
        say(fmt::format("{}; gives up in {} (timeout)", how_many, in_words(give_up - now)));
      }
      std::this_thread::sleep_for(kLook);
    }
  }

  void say(const std::string& line) const {
    if (parameters_.on_status)
      parameters_.on_status(line);
    else
      log_info(line);
  }

  const RendezvousParameters parameters_;
  const Endpoint endpoint_;
  const std::int64_t rank_;
  const Duration timeout_;
  std::mutex mutex_;
  std::optional<RendezvousStore> found_;
};

struct Choices {
  Endpoint endpoint;
  std::int64_t rank = 0;
  Duration timeout{};
};

Result<Choices> read_choices(const RendezvousParameters& parameters) {
  const auto wrong = [](std::string message) {
    return fail(ErrorKind::InvalidArgument, std::move(message));
  };
  if (parameters.endpoint.empty())
    return wrong("the static rendezvous needs an endpoint: HOST:PORT of the node with rank 0");
  if (!parameters.secret_file.empty())
    return wrong("a secret (--rdzv-secret-file) needs a coordinator, which only c10d has");
  auto endpoint = parse_endpoint(parameters.endpoint);
  if (!endpoint) return tl::unexpected(endpoint.error());
  const auto configured = parameters.integer("rank");
  if (!configured) return tl::unexpected(configured.error());
  const auto rank = parameters.node_rank ? parameters.node_rank : *configured;
  if (!rank) return wrong("the static rendezvous needs this node's rank (--node-rank)");
  if (*rank < 0 || *rank >= parameters.max_nodes)
    return wrong(fmt::format("the node rank is {}; with {} nodes it must be 0 to {}", *rank,
                             parameters.max_nodes, parameters.max_nodes - 1));
  const auto timeout = parameters.integer("timeout");
  if (!timeout) return tl::unexpected(timeout.error());
  const std::int64_t seconds = timeout->value_or(kDefaultTimeout);
  if (seconds <= 0) return wrong(fmt::format("timeout is {} s; it must be above zero", seconds));
  return Choices{.endpoint = std::move(*endpoint),
                 .rank = *rank,
                 .timeout = std::chrono::seconds(std::min<std::int64_t>(seconds, 1'000'000'000))};
}

}  // namespace

Result<void> check_static(const RendezvousParameters& parameters) {
  if (auto read = read_choices(parameters); !read) return tl::unexpected(read.error());
  return {};
}

Result<std::unique_ptr<RendezvousHandler>> make_static_rendezvous(
    const RendezvousParameters& parameters) {
  warn_of_unknown_keys(parameters, {"rank", "timeout"});
  auto choices = read_choices(parameters);
  if (!choices) return tl::unexpected(choices.error());
  return std::make_unique<StaticHandler>(parameters, std::move(choices->endpoint), choices->rank,
                                         choices->timeout);
}

}  // namespace regroup::runtime
