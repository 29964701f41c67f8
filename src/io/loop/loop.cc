#include "io/loop/loop.h"

#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "io/loop/clock.h"
#include "io/loop/ready_set.h"
#include "io/loop/timer_heap.h"

namespace regroup::io {
namespace {

constexpr Instant kNever{Duration::max()};

// Decides when lingering pays. Each time it found nothing, twice as many turns go by before the
// next attempt, so a loop with a request every few milliseconds spends next to nothing on it.
class LingerJudge {
 public:
  bool worth_trying() { return skip_ == 0 || --skip_ == 0; }
  void paid() { in_vain_ = 0; }
  void was_in_vain() {
    constexpr unsigned kMost = 10;
    in_vain_ = std::min(in_vain_ + 1, kMost);
    skip_ = 1u << in_vain_;
  }

 private:
  unsigned in_vain_ = 0;
  unsigned skip_ = 0;
};

// A descriptor of the loop's own. When it is ready, that is only noted: the work must not run from
// inside ReadySet::dispatch(), because it may call read_what_is_ready().
class Bell final : public Watcher {
 public:
  Bell() = default;
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  ~Bell() override {
    if (fd_ >= 0) ::close(fd_);
  }

  // False, with the reason in errno, if there is no descriptor or the set has no room for it.
  bool hang(int fd, ReadySet& set, std::uint32_t events) {
    if (fd < 0) return false;
    if (set.add(fd, events, *this)) {
      fd_ = fd;
      return true;
    }
    const int reason = errno;
    ::close(fd);
    errno = reason;
    return false;
  }
  int fd() const { return fd_; }
  void ready(std::uint32_t) override { rang = true; }

  bool rang = false;

 private:
  int fd_ = -1;
};

void hang_or_throw(Bell& bell, int fd, ReadySet& set, const char* what) {
  // Edge-triggered: reported once for each ring, so the descriptor need not be read.
  if (!bell.hang(fd, set, EPOLLIN | EPOLLET))
    throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

struct Loop::Impl {
  explicit Impl(const LoopOptions& opts) : options(opts) {
    hang_or_throw(posted, ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), sockets, "eventfd");
    // Its expiry is exact. The timeout of epoll_wait may come a thousandth of its length late, so
    // that the kernel can wake several sleepers at once: 60 ms of a minute.
    hang_or_throw(due, ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), sockets,
                  "timerfd_create");
  }

  ~Impl() {
    // A task that is dropped may own a timer or a socket, which need us, or post another one.
    for (std::deque<std::function<void()>> dropped; !tasks.empty(); dropped.clear())
      dropped.swap(tasks);
  }

  // Whether anything happened.
  bool turn(bool may_sleep) {
    arm();
    const bool busy = posted.rang || due.rang;
    // Read last, because stop() rings after it has set the flag.
    const bool came =
        may_sleep && !busy && !stopped ? sockets.sleep_and_dispatch() : sockets.dispatch();
    if (signalled.rang && !stopped) hear_signal();
    if (due.rang) run_timers();
    if (posted.rang) run_tasks();
    return came || busy;
  }

  // Whether something came, now or within the time to linger.
  bool comes_soon() {
    if (turn(false)) return true;
    const Instant until = now() + options.linger;
    do {
      sched_yield();
      if (turn(false)) {
        judge.paid();
        return true;
      }
    } while (now() < until);
    judge.was_in_vain();
    return false;
  }

  void run() {
    const bool lingers = options.linger > Duration{};
    while (!stopped)
      if (!lingers || !judge.worth_trying() || !comes_soon()) turn(true);
    // The thread that stopped us may still be ringing, and the loop may be destroyed once we
    // return.
    const std::lock_guard lock(mutex);
  }

  void ring() {
    const std::uint64_t one = 1;
    // It can fail only if it has rung 2^64 times; then it still rings.
    [[maybe_unused]] const ssize_t size = ::write(posted.fd(), &one, sizeof one);
  }

  // An alarm that is too early is left as it is: it costs one turn for nothing, while a deadline
  // that is put off with every message would cost a system call each.
  void arm() {
    const TimerHeap::Entry* first = timers.first();
    if (first == nullptr || first->at >= armed_for || due.rang) return;
    if (first->at <= now()) {
      due.rang = true;
      return;
    }
    armed_for = first->at;
    const Duration at = armed_for.since_start;
    const itimerspec alarm{
        .it_interval = {},
        .it_value = {static_cast<time_t>(at / 1s), static_cast<long>((at % 1s) / 1ns)}};
    CHECK(::timerfd_settime(due.fd(), TFD_TIMER_ABSTIME, &alarm, nullptr) == 0);
  }

  void run_timers() {
    due.rang = false;
    armed_for = kNever;
    passed = now();
    const std::uint64_t last = timers.last_order();
    while (!stopped) {
      TimerHeap::Entry* first = timers.first();
      if (first == nullptr || first->at > passed || first->order > last) return;
      timers.remove(*first);
      // The task may set the timer again, or destroy it, so it runs from the stack.
      const auto task = std::exchange(first->task, nullptr);
      task();
    }
  }

  void run_tasks() {
    std::unique_lock lock(mutex);
    for (std::size_t left = tasks.size(); left > 0 && !stopped; --left) {
      auto task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // What it owned may post while it is destroyed.
      lock.lock();
    }
    posted.rang = !tasks.empty();
  }

  // One at a time: the descriptor goes on ringing while there are more.
  void hear_signal() {
    signalled.rang = false;
    signalfd_siginfo received{};
    if (::read(signalled.fd(), &received, sizeof received) != sizeof received) return;
    const SignalEvent event{static_cast<int>(received.ssi_signo),
                            static_cast<pid_t>(received.ssi_pid), received.ssi_code == SI_KERNEL};
    const auto found = handlers.find(event.number);
    if (found == handlers.end()) return;
    const auto handler = found->second;  // It may put another in its place.
    handler(event);
  }

  LoopOptions options;
  ReadySet sockets;
  Bell posted;  // Also rings for stop().
  Bell due;
  Bell signalled;

  TimerHeap timers;
  Instant armed_for = kNever;
  // Timers due by then have had their turn. A timer that is set to an earlier instant counts as due
  // then; otherwise one that sets itself to the past again and again would always run before the
  // others.
  Instant passed{};

  LingerJudge judge;
  std::map<int, std::function<void(const SignalEvent&)>> handlers;

  std::atomic<bool> stopped = false;
  std::mutex mutex;  // Held also while a thread rings: see run().
  std::deque<std::function<void()>> tasks;
};

Loop::Loop(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Loop::~Loop() = default;

Result<std::unique_ptr<Loop>> Loop::open(const LoopOptions& options) try {
  return std::unique_ptr<Loop>(new Loop(std::make_unique<Impl>(options)));
} catch (const std::exception& error) {
  return fail(ErrorKind::Io, std::string("cannot make an event loop: ") + error.what() +
                                 ". Raise the limit on open files (ulimit -n).");
}

void Loop::run() { impl_->run(); }

void Loop::stop() {
  const std::lock_guard lock(impl_->mutex);
  impl_->stopped = true;
  impl_->ring();
}

void Loop::post(std::function<void()> task) {
  const std::lock_guard lock(impl_->mutex);
  impl_->tasks.push_back(std::move(task));
  if (impl_->tasks.size() == 1) impl_->ring();
}

void Loop::read_what_is_ready() { impl_->sockets.dispatch_all(); }

Result<void> Loop::on_signal(int number, std::function<void(const SignalEvent&)> handler) {
  impl_->handlers[number] = std::move(handler);
  sigset_t set;
  sigemptyset(&set);
  for (const auto& [handled, unused] : impl_->handlers) sigaddset(&set, handled);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  Bell& bell = impl_->signalled;
  const bool first = bell.fd() < 0;
  const int fd = ::signalfd(bell.fd(), &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0 || (first && !bell.hang(fd, impl_->sockets, EPOLLIN)))
    return fail(ErrorKind::Io, std::string("cannot watch for signals: ") + std::strerror(errno));
  return {};
}

ReadySet& Loop::sockets() { return impl_->sockets; }

struct Timer::Impl {
  Loop::Impl& loop;
  TimerHeap::Entry entry;
};

Timer::Timer(Loop& loop) : impl_(new Impl{*loop.impl_, {}}) {}
Timer::~Timer() { cancel(); }

void Timer::set(Instant at, std::function<void()> task) {
  impl_->loop.timers.set(impl_->entry, std::max(at, impl_->loop.passed));
  // The earlier task is destroyed last: it may own this timer.
  impl_->entry.task.swap(task);
}

void Timer::cancel() {
  impl_->loop.timers.remove(impl_->entry);
  const auto dropped = std::exchange(impl_->entry.task, nullptr);
}

}  // namespace regroup::io
