// How a command says what went wrong, or what it waits for. No command writes to standard error in
// another way: a reader that has stopped holds up nothing (runtime/common/log.h).
#pragma once

#include <string>

namespace regroup::cli {

// "regroup: MESSAGE" on standard error. Returns the exit code, so that the command can return it.
int report(int exit_code, const std::string& message);

// The same with a line that has its prefix already, or is JSON.
int say(int exit_code, const std::string& line);

}  // namespace regroup::cli
