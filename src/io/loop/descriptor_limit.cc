#include "io/loop/descriptor_limit.h"

#include <limits>

namespace regroup::io {

DescriptorLimit raise_descriptor_limit() {
  rlimit before{};
  if (::getrlimit(RLIMIT_NOFILE, &before) != 0) return {};
  const rlimit raised{before.rlim_max, before.rlim_max};
  const bool is_raised = ::setrlimit(RLIMIT_NOFILE, &raised) == 0;
  return {.before = before, .now = is_raised ? raised.rlim_cur : before.rlim_cur};
}

std::size_t descriptor_limit() {
  rlimit now{};
  if (::getrlimit(RLIMIT_NOFILE, &now) != 0) return std::numeric_limits<std::size_t>::max();
  return now.rlim_cur;
}

}  // namespace regroup::io
