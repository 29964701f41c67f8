// The public face of the agent: the loop, the signals, and what is kept for all attempts.
#include "regroup/agent.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "io/loop/loop.h"
#include "io/process/process.h"
#include "runtime/agent/agent_host.h"
#include "runtime/common/limits.h"
#include "runtime/common/log.h"
#include "runtime/health/health_server.h"
#include "runtime/workers/worker_host.h"
#include "runtime/workers/worker_signals.h"

namespace regroup {
namespace {

// Why these options cannot be had; empty: they can.
std::string trouble_with(const AgentOptions& options) {
  if (options.spec.local_world_size < 1) return "an agent needs at least one worker";
  if (options.spec.max_restarts < 0)
    return "max_restarts is " + std::to_string(options.spec.max_restarts) +
           "; it must be 0 (no restart) or more";
  if (!options.backend && options.spec.command.empty())
    return "an agent needs a command for its workers";
  if (options.backend && options.workers.hang_timeout > Duration{})
    return "only workers that are processes of this machine can be looked at for hangs";
  if (options.backend && options.watchdog.enabled)
    return "only workers that are processes of this machine can have timers";
  return {};
}

AgentStatus status_of(const runtime::AgentHost& host) {
  const runtime::HealthSnapshot now = host.health();
  AgentStatus status{.state = host.state(),
                     .doing = std::string(now.doing),
                     .waiting_for = now.waiting_for,
                     .restarts = now.restarts};
  if (now.round) {
    status.round = now.round->number;
    status.group_rank = now.round->group_rank;
    status.group_world_size = now.round->group_world_size;
  }
  for (const runtime::HealthWorker& worker : now.workers)
    status.workers.push_back(
        {worker.local_rank, worker.rank, worker.pid, std::string(worker.state)});
  return status;
}

class OneAgent final : public Agent {
 public:
  Result<void> open(AgentOptions options) {
    logs_ = options.logs;
    io::raise_open_files();
    io::make_room_for_descriptors(runtime::kDescriptors +
                                  runtime::kDescriptorsOfAWorker *
                                      static_cast<std::size_t>(options.spec.local_world_size));
    if (auto claimed = io::become_subreaper(); !claimed) return claimed;
    auto loop = io::Loop::open();
    if (!loop) return tl::unexpected(loop.error());
    loop_ = std::move(*loop);
    // Before any thread, because signals are blocked only in those that come later.
    if (auto heard = hear_signals(options); !heard) return heard;
    auto host = runtime::WorkerHost::open(options.workers, options.backend == nullptr);
    if (!host) return tl::unexpected(host.error());
    host_ = std::move(*host);
    // Log lines stay clear of the workers' lines, and look like all the others.
    sink_.emplace([this, line = options.workers.warning_line](const std::string& text) {
      host_->pump().print(line ? line(text) : "regroup: " + text);
    });
    // Behind the guard, which would keep the port if we were killed.
    if (options.health)
      if (auto opened = open_health_port(*options.health); !opened) return opened;
    backend_ = options.backend;
    agent_ = std::make_unique<runtime::AgentHost>(*loop_, *host_, std::move(options));
    publish();
    agent_->on_change([this] { publish(); });
    return agent_->open_watchdog();
  }

  RunResult run() override {
    agent_->begin();
    loop_->run();
    publish();
    agent_->on_change({});
    if (backend_) backend_->shut_down();
    health_.reset();
    host_->pump().flush_console(runtime::kConsolePatience);
    RunResult result = agent_->take_result();
    agent_.reset();
    sink_.reset();
    if (logs_) logs_->over(!result.failed());
    return result;
  }

  AgentStatus status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }

  void stop(int signal) override {
    loop_->post(
        [this, signal] { agent_->on_signal({.number = signal, .sender = ::getpid()}, true); });
  }

 private:
  Result<void> hear_signals(const AgentOptions& options) {
    // A signal to share ends nothing.
    runtime::SignalChoice choice{.handle = options.signals_to_handle,
                                 .forward = options.signals_to_forward};
    for (const int number : options.signals_to_share) {
      std::erase(choice.handle, number);
      std::erase(choice.forward, number);
      choice.forward.push_back(number);
    }
    const auto forward = [this, shared = options.signals_to_share](const io::SignalEvent& event) {
      if (std::find(shared.begin(), shared.end(), event.number) != shared.end())
        agent_->share(event);
      else
        agent_->forward(event.number);
    };
    if (auto heard = runtime::hear_signals(
            *loop_, choice, [this](const io::SignalEvent& event) { agent_->on_signal(event); },
            forward);
        !heard)
      return heard;
    return loop_->on_signal(SIGCHLD, [this](const io::SignalEvent&) { agent_->on_child(); });
  }

  // Nothing is opened if it cannot be had, and need not be.
  Result<void> open_health_port(const HealthOptions& options) {
    auto started = runtime::HealthServer::start(
        options, *loop_,
        // The agent is there before the loop turns.
        {.look = [this] { return agent_->health(); },
         .warn = [this](const std::string& line) { host_->warn(line); }});
    if (!started && options.required)
      return fail(ErrorKind::InvalidArgument, "no health port: " + started.error().message);
    if (!started) {
      host_->warn("no health port: " + started.error().message);
      return {};
    }
    health_ = std::move(*started);
    if (options.on_listening) options.on_listening(health_->addresses());
    return {};
  }

  void publish() {
    if (health_) health_->publish(agent_->health());
    AgentStatus now = status_of(*agent_);
    const std::lock_guard lock(mutex_);
    status_ = std::move(now);
  }

  std::shared_ptr<LogsSpecs> logs_;
  std::shared_ptr<WorkerBackend> backend_;
  std::unique_ptr<io::Loop> loop_;
  std::unique_ptr<runtime::WorkerHost> host_;
  std::unique_ptr<runtime::HealthServer> health_;
  std::optional<runtime::LogSink> sink_;
  std::unique_ptr<runtime::AgentHost> agent_;
  mutable std::mutex mutex_;
  AgentStatus status_;
};

}  // namespace

Result<std::unique_ptr<Agent>> Agent::create(AgentOptions options) {
  if (std::string trouble = trouble_with(options); !trouble.empty())
    return fail(ErrorKind::InvalidArgument, std::move(trouble));
  if (!options.backend && !options.logs) {
    auto logs = make_default_logs_specs({});
    if (!logs) return tl::unexpected(logs.error());
    options.logs = std::move(*logs);
  }
  auto agent = std::make_unique<OneAgent>();
  if (auto opened = agent->open(std::move(options)); !opened) return tl::unexpected(opened.error());
  return agent;
}

Result<RunResult> run_agent(AgentOptions options) {
  auto agent = Agent::create(std::move(options));
  if (!agent) return tl::unexpected(agent.error());
  return (*agent)->run();
}

}  // namespace regroup
