#include "io/loop/descriptor_limit.h"

namespace regroup::io {

DescriptorLimit raise_descriptor_limit() {
  rlimit before{};
  if (::getrlimit(RLIMIT_NOFILE, &before) != 0) return {};
  const rlimit raised{before.rlim_max, before.rlim_max};
  const bool is_raised = ::setrlimit(RLIMIT_NOFILE, &raised) == 0;
  return {.before = before, .now = is_raised ? raised.rlim_cur : before.rlim_cur};
}

}  // namespace regroup::io
