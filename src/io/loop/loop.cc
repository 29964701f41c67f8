#include "io/loop/loop.h"

#include <sched.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <map>
#include <utility>

#include "base/check.h"
#include "io/loop/clock.h"
#include "io/loop/ready_set.h"

namespace regroup::io {
namespace {

namespace asio = boost::asio;

// Decides when lingering pays. Each time it was in vain, twice as many sleeps go by before the next
// attempt, so a loop with a request every few milliseconds spends next to nothing on it.
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

}  // namespace

struct Loop::Impl {
  explicit Impl(const LoopOptions& opts) : options(opts), signals(context), any_ready(context) {
    any_ready.assign(sockets.descriptor());
    wait_for_sockets();
  }
  ~Impl() { any_ready.release(); }

  void read_signal() {
    signals.async_read_some(asio::buffer(&received, sizeof received),
                            [this](const boost::system::error_code& error, std::size_t) {
                              if (error) return;
                              const SignalEvent event{static_cast<int>(received.ssi_signo),
                                                      static_cast<pid_t>(received.ssi_pid),
                                                      received.ssi_code == SI_KERNEL};
                              const auto handler = handlers.find(event.number);
                              if (handler != handlers.end()) handler->second(event);
                              read_signal();
                            });
  }

  void wait_for_sockets() {
    any_ready.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this](const boost::system::error_code& error) {
                           // Gone only with the loop; without it the sockets would fall silent.
                           CHECK(!error || error == asio::error::operation_aborted);
                           if (error) return;
                           sockets.dispatch();
                           wait_for_sockets();
                         });
  }

  // At the sockets every time, at everything else often enough.
  bool look() {
    constexpr unsigned kLooks = 16;
    const bool came = sockets.dispatch();
    if (++looks % kLooks != 0) return came;
    return context.poll_one() != 0 || came;
  }

  // Whether something came, now or within the time to linger.
  bool look_longer() {
    if (look()) return true;
    if (options.linger <= Duration{} || !judge.worth_trying()) return false;
    const Instant until = now() + options.linger;
    do {
      sched_yield();
      if (look()) {
        judge.paid();
        return true;
      }
    } while (now() < until && !context.stopped());
    judge.was_in_vain();
    return false;
  }

  LoopOptions options;
  ReadySet sockets;
  // Everything that reads and writes belongs to one thread, so the reactor needs no locks; post()
  // and stop() keep theirs.
  asio::io_context context{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO};
  LingerJudge judge;
  unsigned looks = 0;
  asio::posix::stream_descriptor signals;
  asio::posix::stream_descriptor any_ready;
  signalfd_siginfo received{};
  std::map<int, std::function<void(const SignalEvent&)>> handlers;
};

Loop::Loop(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Loop::~Loop() = default;

Result<std::unique_ptr<Loop>> Loop::open(const LoopOptions& options) try {
  return std::unique_ptr<Loop>(new Loop(std::make_unique<Impl>(options)));
} catch (const std::exception& error) {
  return fail(ErrorKind::Io, std::string("cannot make an event loop: ") + error.what() +
                                 ". Raise the limit on open files (ulimit -n).");
}

void Loop::run() {
  auto& context = impl_->context;
  while (!context.stopped()) {
    context.run_one();  // Sleeps if it must.
    while (!context.stopped() && impl_->look_longer()) {
    }
  }
}

void Loop::stop() { impl_->context.stop(); }

void Loop::post(std::function<void()> task) { asio::post(impl_->context, std::move(task)); }

void Loop::read_what_is_ready() { impl_->sockets.dispatch_all(); }

Result<void> Loop::on_signal(int number, std::function<void(const SignalEvent&)> handler) {
  impl_->handlers[number] = std::move(handler);
  sigset_t set;
  sigemptyset(&set);
  for (const auto& [handled, unused] : impl_->handlers) sigaddset(&set, handled);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  const bool first = !impl_->signals.is_open();
  const int fd =
      signalfd(first ? -1 : impl_->signals.native_handle(), &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0)
    return fail(ErrorKind::Io, std::string("cannot watch for signals: ") + std::strerror(errno));
  if (!first) return {};
  boost::system::error_code error;
  impl_->signals.assign(fd, error);
  if (error) {
    ::close(fd);
    return fail(ErrorKind::Io, "cannot watch for signals: " + error.message());
  }
  impl_->read_signal();
  return {};
}

asio::io_context& Loop::context() { return impl_->context; }
ReadySet& Loop::sockets() { return impl_->sockets; }

struct Timer::Impl {
  explicit Impl(asio::io_context& context) : timer(context) {}
  asio::steady_timer timer;
  std::uint64_t set_count = 0;  // A task that was queued before a newer set() must not run.
};

Timer::Timer(Loop& loop) : impl_(std::make_shared<Impl>(loop.context())) {}
Timer::~Timer() { cancel(); }

void Timer::set(Instant at, std::function<void()> task) {
  const std::uint64_t mine = ++impl_->set_count;
  impl_->timer.expires_at(std::chrono::steady_clock::time_point(at.since_start));
  impl_->timer.async_wait(
      [impl = impl_, mine, task = std::move(task)](const boost::system::error_code& error) {
        if (!error && impl->set_count == mine) task();
      });
}

void Timer::cancel() {
  ++impl_->set_count;
  impl_->timer.cancel();
}

}  // namespace regroup::io
