// Lengths of time, as every interface of regroup takes them.
#pragma once

#include <chrono>

namespace regroup {

using Duration = std::chrono::nanoseconds;
using namespace std::chrono_literals;

}  // namespace regroup
