// `regroup run`: this node's part in a run.
#pragma once

#include <string>
#include <vector>

namespace regroup::cli {

// The words after `run`. Returns the exit code.
int run_run(const std::vector<std::string>& words);

}  // namespace regroup::cli
