// The nodes of a run, as people type them: how many, and their names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "regroup/result.h"

namespace regroup::cli {

struct NodeRange {
  std::int64_t min = 1;
  std::int64_t max = 1;
  friend bool operator==(const NodeRange&, const NodeRange&) = default;
};

// "4", or "2:8" for two to eight. Only the spelling is checked here; the rendezvous decides whether
// a run can have this many nodes.
Result<NodeRange> parse_node_range(std::string_view text);

// "a,b" of --expect; empty names are left out.
std::vector<std::string> split_names(const std::string& text);

}  // namespace regroup::cli
