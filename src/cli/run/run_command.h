// `regroup run`: this node's part in a run.
#pragma once

#include <string>
#include <vector>

namespace regroup::cli {

// The words after `run`. `invoked_as` is argv[0]: the workers' Python is looked for beside it, too,
// and by the name of torchrun we end with its exit codes and report as it does. Returns the exit
// code.
int run_run(const std::vector<std::string>& words, const std::string& invoked_as);

// A link of that name is a drop-in: `torchrun …` is `regroup run …`.
bool is_torchrun(const std::string& invoked_as);

}  // namespace regroup::cli
