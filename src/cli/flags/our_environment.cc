#include "cli/flags/our_environment.h"

#include <string_view>

extern char** environ;

namespace regroup::cli {

std::map<std::string, std::string> our_environment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=', 1);
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

}  // namespace regroup::cli
