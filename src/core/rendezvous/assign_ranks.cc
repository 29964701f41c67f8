#include "core/rendezvous/assign_ranks.h"

#include <map>

namespace regroup::core::rendezvous {

std::vector<AssignedRanks> assign_ranks(const std::vector<RoleInfo>& nodes) {
  std::int64_t world = 0;
  std::map<std::string, std::int64_t> roles;
  std::vector<AssignedRanks> assigned;
  for (const RoleInfo& node : nodes) {
    std::int64_t& role = roles[node.role];
    assigned.push_back({.base_global_rank = world, .base_role_rank = role});
    world += node.local_world_size;
    role += node.local_world_size;
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    assigned[i].global_world_size = world;
    assigned[i].role_world_size = roles[nodes[i].role];
  }
  return assigned;
}

}  // namespace regroup::core::rendezvous
