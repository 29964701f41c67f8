// The JSON that agents leave for each other in a round's store.
#pragma once

#include <string>
#include <string_view>

#include "core/rendezvous/assign_ranks.h"
#include "regroup/result.h"

namespace regroup::wire {

// {"role": "default", "rank": 0, "local_world_size": 8}
std::string encode_role_info(const core::rendezvous::RoleInfo& info);
Result<core::rendezvous::RoleInfo> decode_role_info(std::string_view json);

// [base_global_rank, global_world_size, base_role_rank, role_world_size]
std::string encode_assigned_ranks(const core::rendezvous::AssignedRanks& assigned);
Result<core::rendezvous::AssignedRanks> decode_assigned_ranks(std::string_view json);

}  // namespace regroup::wire
