#include "runtime/rendezvous/heartbeat.h"

#include <string>
#include <system_error>
#include <utility>

#include "io/loop/thread_name.h"

namespace regroup::runtime {

Result<void> Heartbeat::start(Duration interval, std::function<void()> beat) {
  running_ = true;
  try {
    thread_ = std::thread([this, interval, beat = std::move(beat)] {
      io::name_this_thread("heartbeat");
      run(interval, beat);
    });
  } catch (const std::system_error& error) {
    running_ = false;
    return fail(ErrorKind::Io, std::string("no thread for the heartbeats: ") + error.what());
  }
  return {};
}

void Heartbeat::stop() {
  {
    const std::lock_guard lock(mutex_);
    running_ = false;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Heartbeat::run(Duration interval, const std::function<void()>& beat) {
  Duration pause = interval / 2;
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, pause, [&] { return !running_; })) {
    pause = interval;
    lock.unlock();
    beat();
    lock.lock();
  }
}

}  // namespace regroup::runtime
