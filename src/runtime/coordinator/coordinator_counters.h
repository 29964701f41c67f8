// Numbers about the coordinators of one port.
#pragma once

#include <cstddef>

#include "core/run/run_status.h"

namespace regroup::runtime {

using CoordinatorCounters = core::run::SessionCounters;

// How much depends on the coordinators now.
struct Presence {
  std::size_t runs = 0;   // That are not over.
  std::size_t nodes = 0;  // With a session in any run.
};

}  // namespace regroup::runtime
