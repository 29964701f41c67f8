#include "core/rendezvous/state.h"

#include <fmt/core.h>

namespace regroup::core::rendezvous {

std::string to_string(const NodeId& node) {
  return fmt::format("{}_{}_{}", node.address, node.pid, node.local_id);
}

std::string phase(const State& state) {
  const char* name = state.closed ? "closed" : state.complete ? "complete" : "open";
  return fmt::format("{}.{}", state.round, name);
}

}  // namespace regroup::core::rendezvous
