// One value of a pickle, written so that it stands alone: without references to other values. Equal
// values give equal bytes; the members of a set are sorted, since Python gives them no order.
#pragma once

#include <cstddef>
#include <string>

#include "regroup/result.h"
#include "wire/pickle/pickle_graph.h"

namespace regroup::wire {

// The error's message completes "attribute x ...". Refused are values that take more than
// `most_bytes`, are nested too deeply or in themselves, classes, states, and dicts and sets that
// Python could not make because a key cannot be hashed.
Result<std::string> write_fragment(const PickleGraph& graph, PickleRef ref, std::size_t most_bytes);

}  // namespace regroup::wire
