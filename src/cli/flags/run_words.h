// The words after `regroup run` or `regroup spawn`, told apart: options, the script or command, and
// its own arguments.
//
// As torchrun's: dashes or underscores, `--name value` and `--name=value`, grouped letters (-mr3),
// unambiguous abbreviations. Unlike torchrun's, nothing after the script is ever looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "regroup/result.h"

namespace regroup::cli {

// What an option is called, and how it is described.
struct RunOption {
  std::string name;  // With dashes, without those in front: "rdzv-id".
  char letter = 0;
  bool takes_value = true;
  bool of_torchrun = false;  // Abbreviations that torchrun completes to it, we complete to it, too.
  bool is_last = false;      // --help: what follows is ignored.
  std::string value_name = {};
  std::vector<std::string> choices = {};
  std::string help = {};
};

struct GivenOption {
  std::string name;   // In full.
  std::string value;  // Empty for those that take none.
  friend bool operator==(const GivenOption&, const GivenOption&) = default;
};

struct RunWords {
  std::vector<GivenOption> options;  // In the order of typing.
  std::optional<std::string> script;
  std::vector<std::string> arguments;
};

// An impossible word is an InvalidArgument that says why, and what may have been meant.
Result<RunWords> split_run_words(const std::vector<std::string>& words,
                                 const std::vector<RunOption>& known);

}  // namespace regroup::cli
