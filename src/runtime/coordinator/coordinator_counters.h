// Numbers about the coordinators of one port.
#pragma once

#include <cstddef>
#include <string>

#include "core/run/run_status.h"

namespace regroup::runtime {

using CoordinatorCounters = core::run::SessionCounters;

// How much depends on the coordinators now.
struct Presence {
  std::size_t runs = 0;   // That are not over.
  std::size_t nodes = 0;  // With a session in any run.
};

// All of it in one line, for people.
std::string describe(const CoordinatorCounters& c, const Presence& present);

}  // namespace regroup::runtime
