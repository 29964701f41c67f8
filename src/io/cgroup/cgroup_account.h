// Reads what a group says of its memory, whichever version its hierarchy has.
#pragma once

#include <optional>
#include <string>

#include "io/cgroup/cgroup.h"

namespace regroup::io {

// Empty: this directory has no memory controller.
std::optional<MemoryAccount> read_memory_account(const std::string& directory);

}  // namespace regroup::io
