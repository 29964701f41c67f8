#include "core/rendezvous/state.h"

namespace regroup::core::rendezvous {

std::string to_string(const NodeId& node) {
  return node.address + "_" + std::to_string(node.pid) + "_" + std::to_string(node.local_id);
}

std::string phase(const State& state) {
  return std::to_string(state.round) + (state.closed     ? ".closed"
                                        : state.complete ? ".complete"
                                                         : ".open");
}

}  // namespace regroup::core::rendezvous
