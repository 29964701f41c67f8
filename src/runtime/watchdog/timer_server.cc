// The timer servers for programs with workers of their own: behind a queue, and behind a named
// pipe.
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
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
                                   std::optional<std::int64_t> worker_id)
    : queue_(std::move(queue)), worker_id_(worker_id) {}

Result<void> LocalTimerClient::acquire(const std::string& scope_id, double expiration_time) {
  queue_->put({.worker_id = worker_id_.value_or(::getpid()),
               .scope_id = scope_id,
               .expiration_time = expiration_time});
  return {};
}

Result<void> LocalTimerClient::release(const std::string& scope_id) {
  queue_->put(
      {.worker_id = worker_id_.value_or(::getpid()), .scope_id = scope_id, .expiration_time = -1});
  return {};
}

// ---- Behind a queue ----

struct TimerServer::Impl {
  std::shared_ptr<RequestQueue> queue;
  Duration max_interval;
  Reaper reaper;
  core::watchdog::Watchdog watchdog;
  core::watchdog::WallClock clock;
  std::atomic<bool> stopping = false;
  std::thread thread;

  void run() {
    while (!stopping) turn();
  }

  void turn() {
    const Instant before = io::now();
    Duration wait = max_interval;
    if (const auto next = watchdog.next_deadline(); next && *next - before < wait)
      wait = std::max(Duration{}, *next - before);
    const auto requests = queue->get(std::max<std::size_t>(1, queue->size()), wait);
    // Only now: the clock may have been set during the wait.
    const io::BothClocks clocks = io::read_both_clocks();
    clock.look(clocks.now, clocks.since_1970);
    for (const TimerRequest& request : requests) take(request, clocks.now);
    for (const Verdict& verdict : watchdog.expire(io::now())) {
      if (reap(verdict))
        watchdog.forget(verdict.process);
      else
        watchdog.postpone(verdict, io::deadline_after(max_interval));
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

  bool reap(const Verdict& verdict) const {
    ExpiredWorker worker{.worker_id = static_cast<std::int64_t>(verdict.process.value),
                         .scopes = {}};
    worker.scopes.reserve(verdict.expired.size());
    for (const Timer& timer : verdict.expired) worker.scopes.push_back(timer.scope);
    try {
      return reaper(worker);
    } catch (...) {
      runtime::log_warning(fmt::format(
          "the reaper of worker {} has thrown; the worker counts as ended", worker.worker_id));
      return true;
    }
  }
};

namespace {

bool kill_process(const ExpiredWorker& worker) {
  // Numbers that mean a process group, every process, or ourselves.
  const auto pid = static_cast<pid_t>(worker.worker_id);
  if (pid <= 1 || pid == ::getpid() || pid != worker.worker_id) return true;
  if (::kill(pid, SIGKILL) == 0 || errno == ESRCH) return true;
  runtime::log_warning(
      fmt::format("cannot kill process {}: {}; it is tried again", pid, io::error_in_words(errno)));
  return false;
}

}  // namespace

TimerServer::TimerServer(std::shared_ptr<RequestQueue> queue, Duration max_interval, Reaper reaper)
    : impl_(std::make_shared<Impl>()) {
  impl_->queue = std::move(queue);
  impl_->max_interval = max_interval;
  impl_->reaper = reaper ? std::move(reaper) : kill_process;
}

TimerServer::~TimerServer() { stop(); }

void TimerServer::start() {
  if (impl_->thread.joinable()) return;
  impl_->stopping = false;
  impl_->thread = std::thread([impl = impl_] {
    io::name_this_thread("timers");
    impl->run();
  });
}

void TimerServer::stop() {
  impl_->stopping = true;
  if (!impl_->thread.joinable()) return;
  // It may sleep in get(). The release of a timer that does not exist wakes it.
  if (auto* local = dynamic_cast<LocalRequestQueue*>(impl_->queue.get()))
    local->put({.worker_id = -1, .scope_id = {}, .expiration_time = -1});
  impl_->thread.join();
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
  }

  Result<void> open() {
    auto loop = io::Loop::open();
    if (!loop) return tl::unexpected(loop.error());
    loop_ = std::move(*loop);
    const std::string path = options_.path.empty() ? runtime::default_timer_path() : options_.path;
    auto host = runtime::WatchdogHost::open(
        *loop_, path,
        {.belongs = [this](pid_t pid) { return belongs(pid); },
         .expired = [this](const runtime::Expiry& expiry) { expired(expiry); },
         .note = [](const std::string&) {},
         .warn = [this](const std::string& line) { warn(line); }});
    if (!host) return tl::unexpected(host.error());
    host_ = std::move(*host);
    thread_ = std::thread([this] {
      io::name_this_thread("timers");
      loop_->run();
    });
    return {};
  }

  const std::string& path() const override { return host_->path(); }

 private:
  bool belongs(pid_t pid) const {
    if (pid == ::getpid()) return false;
    if (options_.belongs) return options_.belongs(pid);
    return io::belongs_to(pid, {.leaders = {}, .reaper = ::getpid()});
  }

  void expired(const runtime::Expiry& expiry) const {
    const int error = expiry.process.signal(expiry.signal);
    if (error != 0 && error != ESRCH)
      warn(fmt::format("process {} cannot be sent {} ({}): {}", expiry.pid,
                       io::signal_name(expiry.signal), io::error_in_words(error), expiry.why));
    if (error == 0 && options_.on_expired)
      options_.on_expired(expiry.pid, expiry.signal, expiry.why);
  }

  void warn(const std::string& line) const {
    if (options_.on_warning)
      options_.on_warning(line);
    else
      runtime::log_warning(line);
  }

  PipeTimerServerOptions options_;
  std::unique_ptr<io::Loop> loop_;
  std::unique_ptr<runtime::WatchdogHost> host_;  // Destroyed before its loop.
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<PipeTimerServer>> PipeTimerServer::open(PipeTimerServerOptions options) {
  auto server = std::make_unique<PipeServer>(std::move(options));
  if (auto opened = server->open(); !opened) return tl::unexpected(opened.error());
  return server;
}

}  // namespace regroup
