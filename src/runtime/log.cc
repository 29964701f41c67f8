#include "runtime/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace regroup::runtime {
namespace {

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made("regroup", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made.set_pattern("[%Y-%m-%d %H:%M:%S.%e] %^%l%$ %v");
    return made;
  }();
  return instance;
}

}  // namespace

void log_info(const std::string& line) { logger().info(line); }
void log_warning(const std::string& line) { logger().warn(line); }

}  // namespace regroup::runtime
