// A store, with or without a coordinator, as a program of its own: serves until it is told to stop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "regroup/result.h"
#include "runtime/store/store_host.h"

namespace regroup::runtime {

struct StoreServiceOptions {
  StoreHostOptions host = {};
  Duration linger = kStoreLinger;
  std::string port_file = {};  // Holds the port while the store listens. Empty: no file.
  bool stats_at_end = false;
};

// Returns after SIGTERM or SIGINT; a coordinator only when every node has said goodbye, or after a
// second signal. SIGUSR1 logs the counters. An error means that it could not start.
Result<void> run_store_service(
    const StoreServiceOptions& options,
    const std::function<void(const std::vector<std::string>& addresses)>& on_listening);

}  // namespace regroup::runtime
