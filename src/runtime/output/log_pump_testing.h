// What the tests of the pump share: workers that are threads.
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
#include "runtime/common/console_testing.h"
#include "runtime/output/log_pump.h"

namespace regroup::runtime {

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
