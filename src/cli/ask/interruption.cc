#include "cli/ask/interruption.h"

#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>

#include "cli/flags/cli.h"

namespace regroup::cli {
namespace {

int exit_code_of(int signal) { return signal == SIGINT ? kInterrupted : kTerminated; }

}  // namespace

struct Interruption::Shared {
  std::shared_ptr<std::atomic<bool>> flag = std::make_shared<std::atomic<bool>>(false);
  std::atomic<int> signal{0};
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::jthread> timer = {};

  void raise() {
    {
      const std::lock_guard lock(mutex);
      *flag = true;
    }
    changed.notify_all();
  }

  // True: the flag is up.
  bool wait_for(Duration limit) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, limit, [&] { return flag->load(); });
  }
};

Interruption::Interruption() : shared_(std::make_shared<Shared>()) {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Only a signal can end a sigwait, so the thread stays until the process ends.
  std::thread([shared = shared_, signals] {
    for (;;) {
      int number = 0;
      if (::sigwait(&signals, &number) != 0) continue;
      if (shared->signal.exchange(number) != 0) ::_exit(exit_code_of(number));
      shared->raise();
    }
  }).detach();
}

Interruption::~Interruption() {
  if (!shared_->timer) return;
  shared_->raise();  // The timer has nothing to wait for any more.
  shared_->timer.reset();
}

std::shared_ptr<const std::atomic<bool>> Interruption::flag() const { return shared_->flag; }

void Interruption::expire_after(Duration limit) {
  // The raw pointer: the thread is joined before the last owner is destroyed.
  shared_->timer.emplace([shared = shared_.get(), limit] {
    if (!shared->wait_for(limit)) shared->raise();
  });
}

bool Interruption::wait_for(Duration limit) const { return shared_->wait_for(limit); }

int Interruption::signal_number() const { return shared_->signal; }

int Interruption::exit_code() const { return exit_code_of(signal_number()); }

std::string Interruption::signal_name() const {
  return signal_number() == SIGINT ? "Ctrl-C" : "SIGTERM";
}

}  // namespace regroup::cli
