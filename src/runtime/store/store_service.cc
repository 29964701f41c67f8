#include "runtime/store/store_service.h"

#include <fmt/core.h>

#include <csignal>
#include <cstring>
#include <optional>

#include "base/text.h"
#include "io/file/locked_file.h"
#include "io/loop/clock.h"
#include "io/loop/descriptor_limit.h"
#include "io/loop/loop.h"
#include "io/net/port_holder.h"
#include "runtime/common/log.h"
#include "runtime/coordinator/coordinator_host.h"

namespace regroup::runtime {
namespace {

// While a coordinator waits for its nodes to leave: how often it checks, and how often it says
// which ones it waits for.
constexpr Duration kLook = 50ms;
constexpr Duration kSay = 30s;
// Nodes that have lost their connections come back within this time, or not at all. Until then a
// run that is not over may be theirs.
constexpr Duration kComeBack = 2s;

class Service {
 public:
  Service(io::Loop& loop, const StoreServiceOptions& options)
      : loop_(loop),
        options_(options),
        name_(options.host.coordinator ? "coordinator: " : "store: "),
        timer_(loop) {}

  Result<void> run(const std::function<void(const std::vector<std::string>&)>& on_listening) {
    // Signals first: the host may look up a name on a thread, which inherits the blocked signals.
    for (const int number : {SIGTERM, SIGINT}) {
      auto heard = loop_.on_signal(number, [this](const io::SignalEvent& event) { stop(event); });
      if (!heard) return heard;
    }
    auto heard = loop_.on_signal(SIGUSR1, [this](const io::SignalEvent&) { log_counters(); });
    if (!heard) return heard;

    auto host = StoreHost::open(loop_, options_.host);
    if (!host)
      return fail(host.error().kind,
                  io::name_port_holder(host.error().message, options_.host.port));
    host_ = std::move(*host);
    const std::string& file = options_.port_file;
    if (!file.empty()) {
      auto written = io::write_file(file, fmt::format("{}\n", host_->port()));
      if (!written) return written;
    }
    on_listening(host_->addresses());
    loop_.run();
    if (options_.stats_at_end) log_counters();
    // A file left behind would send the next reader to a port that is not ours any more.
    if (!file.empty()) {
      if (auto removed = io::remove_file(file); !removed)
        log_warning(name_ + removed.error().message);
    }
    return {};
  }

 private:
  void log_counters() {
    log_info("store: " + runtime::describe(host_->counters()));
    if (const CoordinatorHost* coordinator = host_->coordinator())
      log_info("coordinator: " +
               runtime::describe(coordinator->counters(), coordinator->presence()));
  }

  Presence presence() {
    const CoordinatorHost* coordinator = host_->coordinator();
    return coordinator == nullptr ? Presence{} : coordinator->presence();
  }

  void stop(const io::SignalEvent& event) {
    const std::string who =
        std::string(::strsignal(event.number)) +
        (event.sender == 0 ? "" : fmt::format(" from process {}", event.sender));
    const Presence present = presence();
    if (waited_for_) {
      log_info(fmt::format("{}stopping at once, {}; {} {} coordinator, the workers run on", name_,
                           who, count_of(present.nodes, "node"),
                           present.nodes == 1 ? "loses its" : "lose their"));
      return loop_.stop();
    }
    if (present.nodes == 0) {
      log_info(name_ + "stopping, " + who);
      return loop_.stop();
    }
    log_info(fmt::format("{}{}: stays until {} {} said goodbye; a second signal ends it at once",
                         name_, who, for_whom(present), present.nodes == 1 ? "has" : "have"));
    begin_to_wait(present);
  }

  static std::string for_whom(const Presence& present) {
    if (present.nodes == 0)
      return "the nodes of " + count_of(present.runs, "run") + ", which may come back";
    std::string text = count_of(present.nodes, "node");
    if (present.runs > 0) text += " in " + count_of(present.runs, "run") + " under way";
    return text;
  }

  void begin_to_wait(const Presence& present) {
    waited_for_ = present.nodes;
    said_ = seen_ = io::now();
    look_again();
  }

  void look_again() {
    timer_.set(io::now() + kLook, [this] { look(); });
  }

  void look() {
    const Presence present = presence();
    const Instant now = io::now();
    if (present.nodes > 0) {
      seen_ = now;
    } else if (present.runs == 0 || now - seen_ > kComeBack) {
      log_info(name_ + "stopping, every node has said goodbye" +
               (present.runs == 0 ? "" : ", or is gone"));
      return loop_.stop();
    }
    if (present.nodes != *waited_for_ && now - said_ > 1s) {
      log_info(name_ + "waits for " + for_whom(present));
      waited_for_ = present.nodes;
      said_ = now;
    } else if (now - said_ > kSay) {
      log_info(name_ + "still waits for " + for_whom(present));
      said_ = now;
    }
    look_again();
  }

  io::Loop& loop_;
  const StoreServiceOptions& options_;
  const std::string name_;
  std::unique_ptr<StoreHost> host_;
  io::Timer timer_;

  // Set once a signal has come while nodes are still there: how many there are, when that was last
  // said, and when there was last a node.
  std::optional<std::size_t> waited_for_;
  Instant said_{};
  Instant seen_{};
};

}  // namespace

Result<void> run_store_service(
    const StoreServiceOptions& options,
    const std::function<void(const std::vector<std::string>&)>& on_listening) {
  io::raise_descriptor_limit();
  auto loop = io::Loop::open({.linger = options.linger});
  if (!loop) return tl::unexpected(loop.error());
  return Service(**loop, options).run(on_listening);
}

}  // namespace regroup::runtime
