// One value of a pickle, written so that it stands alone: without references to other values. Equal
// values give equal bytes; the members of a set are sorted, since Python gives them no order.
#pragma once

#include <cstddef>
#include <string>

#include "regroup/result.h"
#include "wire/pickle/pickle_graph.h"

namespace regroup::wire {

// The error's message completes "attribute x ...". Refused: what takes more than `most_bytes`, is
// nested too deeply or in itself, classes, states, and dicts and sets that Python could not make
// because a key cannot be hashed.
Result<std::string> write_fragment(const PickleGraph& graph, PickleRef ref, std::size_t most_bytes);

}  // namespace regroup::wire
