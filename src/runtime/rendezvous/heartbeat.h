// Does something at regular intervals, on a thread of its own. Owned and called by one thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "regroup/result.h"
#include "regroup/time.h"

namespace regroup::runtime {

class Heartbeat {
 public:
  ~Heartbeat() { stop(); }

  // Calls `beat` after half an interval, and then after each interval. Must not be running.
  Result<void> start(Duration interval, std::function<void()> beat);

  // Returns when the last beat is over. May be called twice.
  void stop();

  // For a beat that takes its time: somebody waits in stop().
  bool is_stopping() const { return !running_; }

 private:
  void run(Duration interval, const std::function<void()>& beat);

  std::mutex mutex_;
  std::condition_variable stopped_;
  std::atomic<bool> running_ = false;
  std::thread thread_;
};

// What is worth a warning: the first heartbeat of a row that failed, and at the end of the row how
// many they were. Owned and called by one thread at a time.
class HeartbeatLog {
 public:
  // A line, or nothing.
  std::string on_beat(const Result<void>& sent);
  std::string on_stop();

 private:
  std::int64_t failed_ = 0;  // In a row.
};

}  // namespace regroup::runtime
