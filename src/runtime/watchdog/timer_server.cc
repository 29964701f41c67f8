// The timer servers for programs with workers of their own: behind a queue, and behind a named
// pipe.
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "core/watchdog/wall_clock.h"
#include "core/watchdog/watchdog.h"
#include "io/file/pipe.h"
#include "io/loop/clock.h"
#include "io/loop/loop.h"
#include "io/loop/thread_name.h"
#include "io/process/process_watch.h"
#include "io/process/signals.h"
#include "regroup/timer.h"
#include "runtime/common/log.h"
#include "runtime/watchdog/watchdog_host.h"

namespace regroup {

using core::watchdog::ProcessId;
using core::watchdog::Timer;
using core::watchdog::Verdict;

// ---- The queue in memory ----

void LocalRequestQueue::put(TimerRequest request) {
  const std::lock_guard lock(mutex_);
  requests_.push_back(std::move(request));
  came_.notify_one();
}

std::size_t LocalRequestQueue::size() const {
  const std::lock_guard lock(mutex_);
  return requests_.size();
}

std::vector<TimerRequest> LocalRequestQueue::get(std::size_t size, Duration timeout) {
  std::unique_lock lock(mutex_);
  came_.wait_until(lock,
                   std::chrono::steady_clock::time_point(io::deadline_after(timeout).since_start),
                   [&] { return requests_.size() >= size; });
  const auto count = static_cast<std::ptrdiff_t>(std::min(size, requests_.size()));
  std::vector<TimerRequest> taken(std::make_move_iterator(requests_.begin()),
                                  std::make_move_iterator(requests_.begin() + count));
  requests_.erase(requests_.begin(), requests_.begin() + count);
  return taken;
}

LocalTimerClient::LocalTimerClient(std::shared_ptr<LocalRequestQueue> queue,
                                   std::optional<std::int64_t> worker_id, int signal)
    : queue_(std::move(queue)), worker_id_(worker_id), signal_(signal) {}

Result<void> LocalTimerClient::acquire(const std::string& scope_id, double expiration_time) {
  queue_->put({.worker_id = worker_id_.value_or(::getpid()),
               .scope_id = scope_id,
               .expiration_time = expiration_time,
               .signal = signal_});
  return {};
}

Result<void> LocalTimerClient::release(const std::string& scope_id) {
  queue_->put(
      {.worker_id = worker_id_.value_or(::getpid()), .scope_id = scope_id, .expiration_time = -1});
  return {};
}

namespace {

// A queue that throws is asked again after this time.
constexpr Duration kAgain = 1s;

// Calls what a user has given us. Empty: it has not thrown.
template <class Call>
std::string thrown_by(Call call) {
  try {
    call();
    return {};
  } catch (const std::exception& error) {
    return *error.what() == '\0' ? "an exception" : error.what();
  } catch (...) {
    return "an exception";
  }
}

bool kill_process(const ExpiredWorker& worker) {
  // Numbers that mean a process group, every process, or ourselves.
  const auto pid = static_cast<pid_t>(worker.worker_id);
  if (pid <= 1 || pid == ::getpid() || pid != worker.worker_id) return true;
  if (::kill(pid, worker.signal) == 0 || errno == ESRCH) return true;
  runtime::log_warning(fmt::format("process {} cannot be sent {}: {}", pid,
                                   io::signal_name(worker.signal), io::error_in_words(errno)));
  return false;
}

enum class Reaped { Yes, NotToBe, Again };

}  // namespace

// ---- Behind a queue ----

struct TimerServer::Impl {
  std::shared_ptr<RequestQueue> queue;
  Duration max_interval;
  Reaper reaper;
  core::watchdog::Watchdog watchdog;
  core::watchdog::WallClock clock;
  std::mutex mutex;
  std::condition_variable stopped;
  bool stopping = false;  // Under the mutex.
  std::thread thread;

  bool is_stopping() {
    const std::lock_guard lock(mutex);
    return stopping;
  }

  void run() {
    while (!is_stopping()) turn();
  }

  // The queue is not ours: whatever it throws, the timers that we know still count.
  std::vector<TimerRequest> take_requests(Duration wait) {
    const std::string why =
        thrown_by([&] { taken_ = queue->get(std::max<std::size_t>(1, queue->size()), wait); });
    if (why.empty()) return std::exchange(taken_, {});
    runtime::log_warning("the timers' queue has thrown: " + why + "; it is asked again");
    std::unique_lock lock(mutex);
    stopped.wait_for(lock, std::min(wait, kAgain), [this] { return stopping; });
    return {};
  }
  std::vector<TimerRequest> taken_;

  void turn() {
    const Instant before = io::now();
    Duration wait = max_interval;
    if (const auto next = watchdog.next_deadline(); next && *next - before < wait)
      wait = std::max(Duration{}, *next - before);
    const auto requests = take_requests(wait);
    // Only now: the clock may have been set during the wait.
    const io::BothClocks clocks = io::read_both_clocks();
    clock.look(clocks.now, clocks.since_1970);
    for (const TimerRequest& request : requests) take(request, clocks.now);
    for (const Verdict& verdict : watchdog.expire(io::now())) {
      switch (reap(verdict)) {
        case Reaped::Yes:
          watchdog.forget(verdict.process);
          break;
        case Reaped::NotToBe:
          break;
        case Reaped::Again:
          watchdog.postpone(verdict, io::deadline_after(max_interval));
          break;
      }
    }
  }

  void take(const TimerRequest& request, Instant now) {
    const ProcessId worker{static_cast<std::uint64_t>(request.worker_id)};
    if (request.is_release()) return watchdog.release(worker, request.scope_id);
    const Instant deadline = clock.translate(request.expiration_time, now);
    if (!watchdog.acquire({.process = worker,
                           .scope = request.scope_id,
                           .deadline = deadline,
                           .after = deadline - now,
                           .signal = request.signal}))
      runtime::log_warning("a timer is not kept: there are too many");
  }

  Reaped reap(const Verdict& verdict) const {
    ExpiredWorker worker{.worker_id = static_cast<std::int64_t>(verdict.process.value),
                         .scopes = {}};
    worker.scopes.reserve(verdict.expired.size());
    for (const Timer& timer : verdict.expired) worker.scopes.push_back(timer.scope);
    if (verdict.deciding) worker.signal = verdict.expired[*verdict.deciding].signal;
    const std::string who =
        fmt::format("worker {}: the time of scope {} is up", worker.worker_id, worker.scopes[0]);
    if (!reaper && worker.signal == 0) {
      runtime::log_info(who + "; it lives on: its timers are without a signal");
      return Reaped::NotToBe;
    }
    bool is_over = true;
    const std::string why =
        thrown_by([&] { is_over = reaper ? reaper(worker) : kill_process(worker); });
    if (!why.empty()) {
      runtime::log_warning(
          fmt::format("the reaper of worker {} has thrown: {}; the worker counts "
                      "as ended",
                      worker.worker_id, why));
      return Reaped::Yes;
    }
    runtime::log_info(who +
                      (is_over ? "; it was ended" : "; it could not be ended, and is tried again"));
    return is_over ? Reaped::Yes : Reaped::Again;
  }
};

TimerServer::TimerServer(std::shared_ptr<RequestQueue> queue, Duration max_interval, Reaper reaper)
    : impl_(std::make_shared<Impl>()) {
  impl_->queue = std::move(queue);
  impl_->max_interval = max_interval;
  impl_->reaper = std::move(reaper);
}

TimerServer::~TimerServer() { stop(); }

void TimerServer::start() {
  if (impl_->thread.joinable()) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = false;
  }
  runtime::log_info("the timer server starts");
  impl_->thread = std::thread([impl = impl_] {
    io::name_this_thread("timers");
    impl->run();
  });
}

void TimerServer::stop() {
  if (!impl_->thread.joinable()) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
    impl_->stopped.notify_all();
  }
  // It may sleep in get(). The release of a timer that does not exist wakes it.
  if (auto* local = dynamic_cast<LocalRequestQueue*>(impl_->queue.get()))
    local->put({.worker_id = -1, .scope_id = {}, .expiration_time = -1});
  impl_->thread.join();
  runtime::log_info("the timer server has stopped");
}

// ---- Behind a pipe ----

namespace {

class PipeServer final : public PipeTimerServer {
 public:
  explicit PipeServer(PipeTimerServerOptions options) : options_(std::move(options)) {}
  ~PipeServer() override {
    if (!thread_.joinable()) return;
    loop_->stop();
    thread_.join();
    tell("watchdog stopped", {});
    note("watchdog: stopped");
  }

  Result<void> open() {
    auto loop = io::Loop::open();
    if (!loop) return tl::unexpected(loop.error());
    loop_ = std::move(*loop);
    const std::string path = options_.path.empty() ? runtime::default_timer_path() : options_.path;
    auto host = runtime::WatchdogHost::open(
        *loop_, path,
        {.belongs = [this](pid_t pid) { return belongs(pid); },
         .expired = [this](const runtime::Expiry& expiry) { return expired(expiry); },
         .heard_from = [this](pid_t) { made_progress(); },
         .note = [this](const std::string& text) { note(text); },
         .record = [this](const char* what, const Timer& timer) { tell(what, request_of(timer)); },
         .warn = [this](const std::string& line) { warn(line); }});
    if (!host) return tl::unexpected(host.error());
    host_ = std::move(*host);
    made_progress();
    alive_.emplace(*loop_);
    show_life();
    note("watchdog: timers are taken at " + path);
    tell("watchdog started", {});
    thread_ = std::thread([this] {
      io::name_this_thread("timers");
      loop_->run();
    });
    return {};
  }

  const std::string& path() const override { return host_->path(); }
  std::int64_t last_progress_time() const override { return progress_; }

 private:
  static TimerRequest request_of(const Timer& timer) {
    return {.worker_id = static_cast<std::int64_t>(timer.process.value),
            .scope_id = timer.scope,
            .expiration_time = timer.said,
            .signal = timer.signal};
  }

  void made_progress() { progress_ = io::utc_micros() / 1'000'000; }

  void show_life() {
    made_progress();
    alive_->set(io::deadline_after(std::max(options_.max_interval, Duration(kShortest))),
                [this] { show_life(); });
  }

  void note(const std::string& text) const {
    runtime::log_info((options_.run_id.empty() ? "" : "run " + options_.run_id + ": ") + text);
  }

  void tell(const std::string& name, const std::optional<TimerRequest>& request) const {
    if (options_.on_event) call("on_event", [&] { options_.on_event(name, request); });
  }

  template <class Call>
  static void call(const char* whose, Call one) {
    if (const std::string why = thrown_by(one); !why.empty())
      runtime::log_warning(fmt::format("{} of the timer server has thrown: {}", whose, why));
  }

  bool belongs(pid_t pid) const {
    if (pid == ::getpid()) return false;
    if (options_.belongs) {
      bool is_ours = false;
      call("belongs", [&] { is_ours = options_.belongs(pid); });
      return is_ours;
    }
    return io::belongs_to(pid, {.leaders = {}, .reaper = ::getpid()});
  }

  bool expired(const runtime::Expiry& expiry) const {
    const int error = expiry.process.signal(expiry.signal);
    if (error != 0 && error != ESRCH)
      warn(fmt::format("process {} cannot be sent {} ({}): {}", expiry.pid,
                       io::signal_name(expiry.signal), io::error_in_words(error), expiry.why));
    if (error == 0 && options_.on_expired)
      call("on_expired", [&] { options_.on_expired(expiry.pid, expiry.signal, expiry.why); });
    return error == 0;
  }

  void warn(const std::string& line) const {
    if (options_.on_warning)
      call("on_warning", [&] { options_.on_warning(line); });
    else
      runtime::log_warning(line);
  }

  static constexpr Duration kShortest = 10ms;  // Between two signs of life.

  PipeTimerServerOptions options_;
  std::atomic<std::int64_t> progress_ = 0;
  std::unique_ptr<io::Loop> loop_;
  std::unique_ptr<runtime::WatchdogHost> host_;  // Destroyed before its loop,
  std::optional<io::Timer> alive_;               // as this is.
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<PipeTimerServer>> PipeTimerServer::open(PipeTimerServerOptions options) {
  auto server = std::make_unique<PipeServer>(std::move(options));
  if (auto opened = server->open(); !opened) return tl::unexpected(opened.error());
  return server;
}

}  // namespace regroup
