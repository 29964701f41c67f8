// What the tests of the rendezvous share.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "regroup/rendezvous.h"

namespace regroup {

using Handler = std::unique_ptr<RendezvousHandler>;

inline RendezvousParameters between(std::int64_t min, std::int64_t max) {
  return {.backend = "c10d",
          .endpoint = "",
          .run_id = "run",
          .min_nodes = min,
          .max_nodes = max,
          .config = {{"last_call_timeout", "1"}},
          .on_status = [](const std::string&) {}};
}

// Everybody joins, each on a thread of its own, as if on a machine of its own.
inline std::vector<Result<RendezvousInfo>> all_join(
    const std::vector<RendezvousHandler*>& handlers) {
  std::vector<std::future<Result<RendezvousInfo>>> joining;
  for (RendezvousHandler* handler : handlers)
    joining.push_back(
        std::async(std::launch::async, [handler] { return handler->next_rendezvous(); }));
  std::vector<Result<RendezvousInfo>> joined;
  for (auto& one : joining) joined.push_back(one.get());
  return joined;
}

}  // namespace regroup
