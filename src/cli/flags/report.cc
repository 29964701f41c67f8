#include "cli/flags/report.h"

#include "runtime/common/log.h"

namespace regroup::cli {

int report(int exit_code, const std::string& message) {
  return say(exit_code, "regroup: " + message);
}

int say(int exit_code, const std::string& line) {
  runtime::print_line(line);
  return exit_code;
}

}  // namespace regroup::cli
