// The workers of a program that embeds regroup: a group on a loop with a thread of its own.
#include "regroup/workers.h"

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "io/loop/clock.h"
#include "io/loop/loop.h"
#include "io/process/process.h"
#include "io/process/signals.h"
#include "runtime/common/console_thread.h"
#include "runtime/common/limits.h"
#include "runtime/workers/local_processes.h"
#include "runtime/workers/worker_group.h"
#include "runtime/workers/worker_host.h"

namespace regroup {
namespace {

using runtime::LocalProcesses;
using runtime::WorkerGroup;

class LocalWorkers final : public Workers {
 public:
  ~LocalWorkers() override {
    if (!thread_.joinable()) return;
    kill();
    wait(std::nullopt);  // This ends: the wait after SIGKILL is bounded.
    loop_->stop();
    thread_.join();
  }

  Result<void> begin(WorkersSpec spec, std::shared_ptr<LogsSpecs> logs) {
    logs_ = std::move(logs);
    io::make_room_for_descriptors(runtime::kDescriptors +
                                  runtime::kDescriptorsOfAWorker * spec.commands.size());
    auto loop = io::Loop::open();
    if (!loop) return tl::unexpected(loop.error());
    loop_ = std::move(*loop);
    if (io::is_ignored(SIGCHLD))
      return fail(ErrorKind::Refused,
                  "this program ignores SIGCHLD, so it cannot learn how its children ended. Set it "
                  "to SIG_DFL");
    claims_orphans_ = spec.claim_orphans;
    if (claims_orphans_)
      if (auto claimed = io::become_subreaper(); !claimed) return claimed;
    auto host = runtime::WorkerHost::open(spec);
    if (!host) return tl::unexpected(host.error());
    host_ = std::move(*host);
    processes_ = std::make_unique<LocalProcesses>(*loop_, *host_, spec, logs_);
    group_ = std::make_unique<WorkerGroup>(
        *loop_, runtime::Backend{*processes_, processes_.get()}, std::move(spec),
        runtime::GroupEvents{.over = [this](WorkersResult result) { over(std::move(result)); }});
    // The workers die with the thread that starts them, so that thread must live as long as they
    // do.
    std::promise<Result<void>> started;
    auto thread = runtime::start_quiet_thread("workers", [this, &started] {
      auto begun = group_->start();
      const bool running = begun.has_value();
      if (running) pids_ = group_->pids();
      started.set_value(std::move(begun));
      if (running && claims_orphans_) reap_now_and_then();
      if (running) loop_->run();
      reaping_.reset();
      group_.reset();
      processes_.reset();
    });
    if (!thread) return tl::unexpected(thread.error());
    thread_ = std::move(*thread);
    auto begun = started.get_future().get();
    if (!begun) {
      thread_.join();
      logs_->never_started();
    }
    return begun;
  }

  std::map<int, int> pids() const override { return pids_; }

  std::optional<WorkersResult> wait(std::optional<Duration> limit) override {
    std::unique_lock lock(mutex_);
    const auto is_over = [this] { return result_.has_value(); };
    constexpr Duration kForEver = 24h * 365;
    if (!limit || *limit > kForEver) {
      over_.wait(lock, is_over);
    } else if (!over_.wait_for(lock, *limit, is_over)) {
      return std::nullopt;
    }
    return result_;
  }

  void stop(int signal, Duration grace) override {
    loop_->post([this, signal, grace] { group_->stop(signal, grace); });
  }
  void kill() override {
    loop_->post([this] { group_->kill(); });
  }
  void forward(int signal) override {
    loop_->post([this, signal] { group_->forward(signal); });
  }

 private:
  // The program handles SIGCHLD itself.
  void reap_now_and_then() {
    reaping_.emplace(*loop_);
    reaping_->set(io::deadline_after(1s), [this] {
      processes_->reap_orphans();
      group_->on_child();
      reap_now_and_then();
    });
  }

  void over(WorkersResult result) {
    logs_->over(result.succeeded);
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    over_.notify_all();
  }

  std::unique_ptr<io::Loop> loop_;
  std::unique_ptr<runtime::WorkerHost> host_;
  std::unique_ptr<LocalProcesses> processes_;
  std::unique_ptr<WorkerGroup> group_;
  std::shared_ptr<LogsSpecs> logs_;
  std::map<int, int> pids_;
  bool claims_orphans_ = false;
  std::optional<io::Timer> reaping_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable over_;
  std::optional<WorkersResult> result_;
};

}  // namespace

Result<std::unique_ptr<Workers>> Workers::start(WorkersSpec spec, std::shared_ptr<LogsSpecs> logs) {
  if (spec.commands.empty())
    return fail(ErrorKind::InvalidArgument, "no workers to start: the list of commands is empty");
  if (spec.attempt.workers.size() != spec.commands.size())
    return fail(ErrorKind::InvalidArgument,
                "every worker needs a command and a name: " + std::to_string(spec.commands.size()) +
                    " commands, " + std::to_string(spec.attempt.workers.size()) + " names");
  auto workers = std::make_unique<LocalWorkers>();
  if (auto begun = workers->begin(std::move(spec), std::move(logs)); !begun)
    return tl::unexpected(begun.error());
  return workers;
}

}  // namespace regroup
