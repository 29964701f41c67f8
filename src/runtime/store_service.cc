#include "runtime/store_service.h"

#include <csignal>
#include <cstring>

#include "io/connection.h"
#include "io/locked_file.h"
#include "io/loop.h"
#include "runtime/log.h"

namespace regroup::runtime {

Result<void> run_store_service(
    const StoreServiceOptions& options,
    const std::function<void(const std::vector<std::string>&)>& on_listening) {
  io::raise_descriptor_limit();
  auto opened = io::Loop::open({.linger = options.linger});
  if (!opened) return tl::unexpected(opened.error());
  io::Loop& loop = **opened;

  // Signals first: the host may look up a name on a thread, which inherits what is blocked.
  std::unique_ptr<StoreHost> host;
  const auto print_counters = [&](const io::SignalEvent&) {
    log_info("store: " + describe(host->counters()));
  };
  const auto stop = [&](const io::SignalEvent& event) {
    log_info(std::string("store: stopping, ") + ::strsignal(event.number) +
             (event.sender == 0 ? "" : " from process " + std::to_string(event.sender)));
    loop.stop();
  };
  for (const int number : {SIGTERM, SIGINT})
    if (auto heard = loop.on_signal(number, stop); !heard) return heard;
  if (auto heard = loop.on_signal(SIGUSR1, print_counters); !heard) return heard;

  auto served = StoreHost::open(loop, options.host);
  if (!served) return tl::unexpected(served.error());
  host = std::move(*served);

  if (!options.port_file.empty()) {
    auto written = io::write_file(options.port_file, std::to_string(host->port()) + "\n");
    if (!written) return written;
  }
  on_listening(host->addresses());
  loop.run();
  if (options.stats_at_end) print_counters({});
  // A file left behind would send the next reader to a port that nobody holds.
  if (!options.port_file.empty()) {
    if (auto removed = io::remove_file(options.port_file); !removed)
      log_warning("store: " + removed.error().message);
  }
  return {};
}

}  // namespace regroup::runtime
