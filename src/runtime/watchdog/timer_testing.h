// What the tests of timers share.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "io/loop/clock.h"
#include "regroup/timer.h"

namespace regroup {

// Seconds from now, as clients say when a timer expires.
inline double in(double seconds) { return static_cast<double>(io::utc_micros()) / 1e6 + seconds; }

// Things that happen on other threads, waited for.
template <class T>
class Told {
 public:
  void tell(T one) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(one));
    came_.notify_all();
  }
  std::vector<T> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, 60s, [&] { return all_.size() >= count; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<T> all_;
};

// A child that does something and then sleeps until it is killed.
class Child {
 public:
  template <class Work>
  explicit Child(Work work) : pid_(::fork()) {
    if (pid_ != 0) return;
    work();
    for (;;) ::pause();
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // The signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  pid_t pid_;
};

class PipeTimers : public testing::Test {
 public:
  PipeTimers() {
    std::string name = (std::filesystem::temp_directory_path() / "timer_testXXXXXX").string();
    folder = ::mkdtemp(name.data());
    path = (folder / "pipe").string();
  }
  ~PipeTimers() override {
    server.reset();
    configure(nullptr);
    std::filesystem::remove_all(folder);
  }

 protected:
  void serve() {
    auto opened = PipeTimerServer::open(
        {.path = path,
         .run_id = "r",
         .on_event =
             [this](const std::string& name, const std::optional<TimerRequest>& request) {
               events.tell({name, request});
             },
         .on_expired =
             [this](int pid, int signal, const std::string& why) {
               expired.tell({pid, signal, why});
               if (throws) throw std::runtime_error("no");
             },
         .on_warning = [this](const std::string& line) { warnings.tell(line); }});
    ASSERT_TRUE(opened) << opened.error().message;
    server = std::move(*opened);
  }

  struct Expired {
    int pid;
    int signal;
    std::string why;
  };
  std::filesystem::path folder;
  std::string path;
  struct Event {
    std::string name;
    std::optional<TimerRequest> request;
  };
  Told<Expired> expired;
  Told<Event> events;
  std::atomic<bool> throws = false;
  Told<std::string> warnings;
  std::unique_ptr<PipeTimerServer> server;
};

}  // namespace regroup
