// Log lines of the running program, on standard error. Called from any thread.
//
// `core` and `wire` never log: they return reasons, and whoever hosts them logs each once.
#pragma once

#include <string>

namespace regroup::runtime {

void log_info(const std::string& line);
void log_warning(const std::string& line);

}  // namespace regroup::runtime
