// Reads a Python pickle without running it.
//
// Python's own reader calls whatever a pickle names; that is how a pickle takes over a process.
// This one knows the classes that occur in a rendezvous state (PickleClass) and the few ways in
// which they are made, and refuses everything else by name.
#pragma once

#include <string_view>

#include "regroup/result.h"
#include "wire/pickle/pickle_graph.h"

namespace regroup::wire {

// The root is always a State with its attributes set. Errors are those of decode_state().
Result<PickleGraph> read_pickle(std::string_view bytes);

}  // namespace regroup::wire
