// Whether our pids are those that the kernel prints.
#pragma once

namespace regroup::runtime {

// False in a container with pids of its own.
bool pids_are_the_kernels();

}  // namespace regroup::runtime
