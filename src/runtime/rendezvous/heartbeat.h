// Does something at regular intervals, on a thread of its own. Owned and called by one thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
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

}  // namespace regroup::runtime
