// --rdzv-secret-file of `coordinator` and `status`.
#pragma once

#include <optional>
#include <string>

#include "cli/flags/cli.h"
#include "runtime/session/session_secret.h"

namespace regroup::cli {

// Empty: not given. A path that is empty was given, and is wrong: a variable that is not set must
// not open the port to everyone.
using SecretFile = std::optional<std::string>;

void add_secret_flag(CLI::App& command, SecretFile& file, const std::string& help);

// Of the flag or of its variable. Empty: none was asked for. Prints what the user should know about
// the file.
Result<std::optional<runtime::Secret>> read_secret_flag(const SecretFile& file);

}  // namespace regroup::cli
