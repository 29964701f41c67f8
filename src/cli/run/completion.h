// Scripts that let a shell complete the flags of `regroup run`.
#pragma once

#include <string>
#include <vector>

#include "cli/flags/run_words.h"

namespace regroup::cli {

// For: source <(regroup run --print-completion bash)
std::string bash_completion(const std::vector<RunOption>& options);

// The same for zsh, after compinit; or saved as _regroup in a directory of fpath.
std::string zsh_completion(const std::vector<RunOption>& options);

}  // namespace regroup::cli
