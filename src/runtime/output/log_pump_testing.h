// What the tests of the pump share: a console that is read, workers that are threads.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/file/pipe.h"
#include "io/loop/clock.h"
#include "runtime/output/log_pump.h"

namespace regroup::runtime {

// Reads all that is written to it, until end() or the end of the writers.
class ReadConsole {
 public:
  ReadConsole() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    read_ = io::Descriptor(ends[0]);
    write_ = io::Descriptor(ends[1]);
    start();
  }
  // Of a pseudo-terminal: its master and its slave.
  ReadConsole(io::Descriptor read, io::Descriptor write)
      : read_(std::move(read)), write_(std::move(write)) {
    start();
  }
  ~ReadConsole() { text(); }

  int fd() const { return write_.get(); }

  // Everything that was written; call it once the pump is gone.
  std::string text() {
    write_.close();
    if (reader_.joinable()) reader_.join();
    return text_;
  }

  // Waits until it has shown this text this many times.
  void await(const std::string& part, int times = 1) {
    const auto count = [&] {
      int found = 0;
      for (auto at = text_.find(part); at != std::string::npos; at = text_.find(part, at + 1))
        ++found;
      return found;
    };
    std::unique_lock lock(mutex_);
    const bool came = more_.wait_for(lock, 60s, [&] { return count() >= times; });
    EXPECT_TRUE(came) << "no '" << part << "' in: " << text_;
  }

 private:
  void start() {
    reader_ = std::thread([this] {
      std::vector<char> buffer(65536);
      for (;;) {
        const ssize_t got = ::read(read_.get(), buffer.data(), buffer.size());
        if (got <= 0) return;
        const std::lock_guard lock(mutex_);
        text_.append(buffer.data(), static_cast<std::size_t>(got));
        more_.notify_all();
      }
    });
  }

  io::Descriptor read_;
  io::Descriptor write_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::string text_;
  std::thread reader_;
};

class LogPumpTest : public testing::Test {
 protected:
  LogPumpTest() {
    std::string path = testing::TempDir() + "log_pump_XXXXXX";
    directory = ::mkdtemp(path.data());
  }
  ~LogPumpTest() override {
    pump.reset();
    std::filesystem::remove_all(directory);
  }

  std::string path(const std::string& name) const { return directory + "/" + name; }

  static std::string contents(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  // Every worker gets the same routes; %d in a file name is its local rank.
  void open(int workers, const StreamRoute& out, const StreamRoute& err = {"", Console::No}) {
    LogRoutes routes;
    routes.filtered_out = path("filtered_out");
    routes.filtered_err = path("filtered_err");
    std::vector<WorkerName> names;
    for (int i = 0; i < workers; ++i) {
      routes.workers.push_back({numbered(out, i), numbered(err, i), ""});
      names.push_back({i, 100 + i, "default"});
    }
    auto opened = pump->open(routes, names);
    ASSERT_TRUE(opened) << opened.error().message;
    // As for a real worker: its own descriptors, ours are closed by started().
    streams.clear();
    for (const auto& ends : *opened)
      streams.emplace_back(io::Descriptor(ends.out < 0 ? -1 : ::dup(ends.out)),
                           io::Descriptor(ends.err < 0 ? -1 : ::dup(ends.err)));
    pump->started();
  }

  void start(LogPumpOptions options) {
    options.warn = [this](const std::string& warning) {
      const std::lock_guard lock(mutex);
      warnings.push_back(warning);
    };
    if (options.console_out == 1) options.console_out = console.fd();
    if (options.console_err == 2) options.console_err = console.fd();
    auto started = LogPump::start(std::move(options));
    ASSERT_TRUE(started) << started.error().message;
    pump = std::move(*started);
  }

  void out(int worker, const std::string& text) { write(streams[worker].first, text); }
  void err(int worker, const std::string& text) { write(streams[worker].second, text); }
  static void write(const io::Descriptor& fd, const std::string& text) {
    EXPECT_EQ(io::write_all(fd.get(), text).error, 0);
  }

  // The workers end; what they wrote is in the files then.
  std::vector<int> drain(Duration limit = 60s) {
    streams.clear();
    return drain_open(limit);
  }
  std::vector<int> drain_open(Duration limit) {
    std::promise<std::vector<int>> done;
    pump->drain(io::deadline_after(limit),
                [&](const std::vector<int>& open) { done.set_value(open); });
    return done.get_future().get();
  }

  // Everything that was shown.
  std::string shown() {
    pump.reset();
    return console.text();
  }

  static StreamRoute numbered(StreamRoute route, int worker) {
    if (const auto at = route.file.find("%d"); at != std::string::npos)
      route.file.replace(at, 2, std::to_string(worker));
    return route;
  }

  std::string directory;
  ReadConsole console;
  std::unique_ptr<LogPump> pump;
  std::vector<std::pair<io::Descriptor, io::Descriptor>> streams;
  std::mutex mutex;
  std::vector<std::string> warnings;
};

}  // namespace regroup::runtime
