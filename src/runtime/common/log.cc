#include "runtime/common/log.h"

#include <fmt/core.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "io/loop/clock.h"
#include "runtime/common/console.h"

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

std::string made_line(std::string_view level, std::string_view colour, const std::string& line) {
  return in_colour() ? fmt::format("regroup: [{}] {}{}\033[m {}", wall_time(), colour, level, line)
                     : fmt::format("regroup: [{}] {} {}", wall_time(), level, line);
}

constexpr std::string_view kWarning = "warning";
constexpr std::string_view kYellow = "\033[33m\033[1m";

// Who writes our lines; begins with the first line, and ends with the program, or before the pump begins.
class OwnLines {
 public:
  static OwnLines& of_this_process() {
    static OwnLines& lines = *new OwnLines;  // Never destroyed: there may be lines at the very end.
    return lines;
  }

  void put(std::string line) {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    line += '\n';
    if (ConsoleWriter* writer = writer_here()) {
      writer->put(line, 1);
    } else {  // There is no thread to be had.
      std::fwrite(line.data(), 1, line.size(), stderr);
    }
  }

  void flush(Duration limit) {
    const std::lock_guard lock(mutex_);
    if (!writer_ || process_ != ::getpid() || !writer_->flush(io::deadline_after(limit))) return;
    writer_.reset();  // The next line, if there is one, starts another thread.
    process_ = 0;
  }

 private:
  ConsoleWriter* writer_here() {
    // The thread is not in a process that was forked since. Its writer cannot be destroyed there.
    if (process_ != ::getpid()) {
      [[maybe_unused]] const auto* abandoned = writer_.release();
      process_ = ::getpid();
      auto started = ConsoleWriter::start(STDERR_FILENO, {}, [](const std::string& text) {
        return made_line(kWarning, kYellow, text);
      });
      if (started) writer_ = std::move(*started);
      static const int registered = std::atexit([] { of_this_process().end(); });
      (void)registered;
    }
    return writer_.get();
  }

  // Waits for a console that reads, and for one that does not, a moment.
  void end() {
    const std::lock_guard lock(mutex_);
    if (process_ == ::getpid()) writer_.reset();
    ended_ = true;
  }

  std::mutex mutex_;
  pid_t process_ = 0;
  bool ended_ = false;
  std::unique_ptr<ConsoleWriter> writer_;
};

void log(std::string_view level, std::string_view colour, const std::string& line) {
  {
    const std::lock_guard lock(sink_mutex());
    if (sink()) {
      sink()(line);
      return;
    }
  }
  print_line(made_line(level, colour, line));
}

}  // namespace

void print_line(const std::string& line) { OwnLines::of_this_process().put(line); }

void flush_lines(Duration limit) { OwnLines::of_this_process().flush(limit); }

LogSink::LogSink(std::function<void(const std::string&)> to) {
  const std::lock_guard lock(sink_mutex());
  sink() = std::move(to);
}

LogSink::~LogSink() {
  const std::lock_guard lock(sink_mutex());
  sink() = nullptr;
}

void log_info(const std::string& line) { log("info", "\033[32m", line); }

void log_warning(const std::string& line) { log(kWarning, kYellow, line); }

}  // namespace regroup::runtime
