#include "cli/flags/report.h"

#include <iostream>

namespace regroup::cli {

int report(int exit_code, const std::string& message) {
  std::cerr << "regroup: " << message << "\n";
  return exit_code;
}

}  // namespace regroup::cli
