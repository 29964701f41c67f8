// How many descriptors this process may have.
#pragma once

#include <sys/resource.h>

#include <cstddef>

namespace regroup::io {

struct DescriptorLimit {
  rlimit before{};
  std::size_t now = 0;
};

// As many as the system allows us: ten thousand clients need them.
DescriptorLimit raise_descriptor_limit();

// How many it is now.
std::size_t descriptor_limit();

}  // namespace regroup::io
