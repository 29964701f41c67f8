// For tests: a console that is read.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/instant.h"
#include "io/file/pipe.h"

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

  // What was read so far; it is forgotten.
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(text_, {});
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

}  // namespace regroup::runtime
