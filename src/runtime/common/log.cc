#include "runtime/common/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <utility>

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

std::mutex& sink_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::function<void(const std::string&)>& sink() {
  static std::function<void(const std::string&)> function;
  return function;
}

bool went_elsewhere(const std::string& line) {
  const std::lock_guard lock(sink_mutex());
  if (!sink()) return false;
  sink()(line);
  return true;
}

}  // namespace

LogSink::LogSink(std::function<void(const std::string&)> to) {
  const std::lock_guard lock(sink_mutex());
  sink() = std::move(to);
}

LogSink::~LogSink() {
  const std::lock_guard lock(sink_mutex());
  sink() = nullptr;
}

void log_info(const std::string& line) {
  if (!went_elsewhere(line)) logger().info(line);
}

void log_warning(const std::string& line) {
  if (!went_elsewhere(line)) logger().warn(line);
}

}  // namespace regroup::runtime
