// What agents build on a store: meeting points that need nothing but keys. The key names are those
// of PyTorch's elastic agents, so both can be in one barrier.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "regroup/result.h"
#include "regroup/store.h"
#include "regroup/time.h"

namespace regroup {

// One caller's seat in a set of members that meet under a key prefix. Nothing is deleted
// afterwards, so a prefix can be used once.
struct Seat {
  std::string prefix;
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
};

// The values of all members under `<prefix><rank>`, in the order of ranks. Values must have been
// set by their owners. Rank 0 returns last, because it often hosts the store that the others still
// read.
Result<std::vector<std::string>> gather(Store& store, const Seat& seat, Duration limit = 300s);

// Sets this rank's value, then gathers.
Result<std::vector<std::string>> synchronize(Store& store, const Seat& seat, std::string_view value,
                                             Duration limit = 300s);

struct BarrierOptions {
  Duration limit = 300s;
  // Without a rank the barrier cannot tell which ranks are missing.
  std::optional<std::int64_t> rank = {};
  // Turns a rank into a name for the message, such as a host name.
  std::function<std::string(std::int64_t)> name_of = {};
  // How long rank 0 looks for the others' traces once the limit has passed.
  Duration trace_limit = 10s;
};

// Returns when `world_size` callers have come. On timeout the error names the missing ranks on
// rank 0, and points to rank 0 on the others.
Result<void> barrier(Store& store, std::string_view prefix, std::int64_t world_size,
                     const BarrierOptions& options = {});

}  // namespace regroup
