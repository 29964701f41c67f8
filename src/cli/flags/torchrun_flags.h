// torchrun's flags may be written with dashes or underscores; the help shows the dashes.
#pragma once

#include <string>
#include <vector>

#include "cli/flags/run_words.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own.
class App;
}

namespace regroup::cli {

// "log-dir" → "--log-dir,--log_dir", for CLI11; `letter` adds "-r,".
std::string both_spellings(const std::string& name, char letter = 0);

// Descriptions of its options, before the library sees any word.
std::vector<RunOption> options_of(const CLI::App& command);

// A command whose help shows one of the two. `arguments` follow the options in its usage line.
CLI::App* add_torchrun_command(CLI::App& parent, const std::string& name, const std::string& help,
                               const std::string& arguments = "");

}  // namespace regroup::cli
