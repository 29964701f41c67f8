#include "runtime/rendezvous/heartbeat.h"

#include <fmt/core.h>

#include <string>
#include <system_error>
#include <utility>

#include "base/text.h"
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

std::string HeartbeatLog::on_beat(const Result<void>& sent) {
  if (!sent && sent.error().kind == ErrorKind::Cancelled) return {};  // Because of a stop.
  if (!sent)
    return ++failed_ == 1 ? "a heartbeat did not get through: " + sent.error().message : "";
  const std::int64_t failed = std::exchange(failed_, 0);
  if (failed == 0) return {};
  return "heartbeats get through again, after " + count_of(failed, "failed one");
}

std::string HeartbeatLog::on_stop() {
  const std::int64_t failed = std::exchange(failed_, 0);
  if (failed < 2) return {};  // The first one was told.
  return fmt::format("the last {} heartbeats did not get through", failed);
}

}  // namespace regroup::runtime
