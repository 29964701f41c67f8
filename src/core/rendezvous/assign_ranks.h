// The workers' ranks, from what the nodes of a round say they run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace regroup::core::rendezvous {

// What one node runs.
struct RoleInfo {
  std::string role;
  std::int64_t rank = 0;  // The node's.
  std::int64_t local_world_size = 0;
  friend bool operator==(const RoleInfo&, const RoleInfo&) = default;
};

// Where one node's workers begin. Worker i of the node has the base plus i.
struct AssignedRanks {
  std::int64_t base_global_rank = 0;
  std::int64_t global_world_size = 0;
  std::int64_t base_role_rank = 0;
  std::int64_t role_world_size = 0;
  friend bool operator==(const AssignedRanks&, const AssignedRanks&) = default;
};

// In the order of the nodes' ranks, both ways.
std::vector<AssignedRanks> assign_ranks(const std::vector<RoleInfo>& nodes);

}  // namespace regroup::core::rendezvous
