// The environment that this process was started with.
#pragma once

#include <map>
#include <string>

namespace regroup::cli {

std::map<std::string, std::string> our_environment();

}  // namespace regroup::cli
