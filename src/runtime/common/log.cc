#include "runtime/common/log.h"

#include <fmt/core.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string_view>
#include <utility>

namespace regroup::runtime {
namespace {

std::mutex& sink_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::function<void(const std::string&)>& sink() {
  static std::function<void(const std::string&)> function;
  return function;
}

std::string wall_time() {
  timeval now{};
  ::gettimeofday(&now, nullptr);
  std::tm parts{};
  ::localtime_r(&now.tv_sec, &parts);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return fmt::format("{}.{:03}", std::string_view(text.data(), length), now.tv_usec / 1000);
}

bool in_colour() {
  static const bool on = [] {
    const char* terminal = std::getenv("TERM");
    return ::isatty(STDERR_FILENO) == 1 && terminal && std::string_view(terminal) != "dumb";
  }();
  return on;
}

void log(std::string_view level, std::string_view colour, const std::string& line) {
  const std::lock_guard lock(sink_mutex());
  if (sink()) {
    sink()(line);
    return;
  }
  const std::string text =
      in_colour() ? fmt::format("[{}] {}{}\033[m {}\n", wall_time(), colour, level, line)
                  : fmt::format("[{}] {} {}\n", wall_time(), level, line);
  // In one piece, because other processes may write to the same place.
  std::fwrite(text.data(), 1, text.size(), stderr);
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

void log_info(const std::string& line) { log("info", "\033[32m", line); }

void log_warning(const std::string& line) { log("warning", "\033[33m\033[1m", line); }

}  // namespace regroup::runtime
