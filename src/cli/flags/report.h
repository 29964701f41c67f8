// How a command says what went wrong.
#pragma once

#include <string>

namespace regroup::cli {

// "regroup: MESSAGE" on standard error. Returns the exit code, so that the command can return it.
int report(int exit_code, const std::string& message);

}  // namespace regroup::cli
