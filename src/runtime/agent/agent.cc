// The public face of the agent: the loop, the signals, and what is kept for all attempts.
#include "regroup/agent.h"

#include <signal.h>

#include <algorithm>
#include <memory>
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

// Null if it cannot be had, and need not be.
Result<std::unique_ptr<runtime::HealthServer>> open_health_port(
    const HealthOptions& options, io::Loop& loop, runtime::WorkerHost& host,
    const std::unique_ptr<runtime::AgentHost>& agent) {
  auto started =
      runtime::HealthServer::start(options, loop,
                                   // The agent is there before the loop turns.
                                   {.look = [&agent] { return agent->health(); },
                                    .warn = [&host](const std::string& line) { host.warn(line); }});
  if (!started && options.required)
    return fail(ErrorKind::InvalidArgument, "no health port: " + started.error().message);
  if (!started) {
    host.warn("no health port: " + started.error().message);
    return nullptr;
  }
  if (options.on_listening) options.on_listening((*started)->addresses());
  return started;
}

}  // namespace

Result<RunResult> run_agent(AgentOptions options) {
  if (options.spec.local_world_size < 1 || options.spec.command.empty())
    return fail(ErrorKind::InvalidArgument, "an agent needs at least one worker, and its command");
  io::raise_open_files();
  io::make_room_for_descriptors(runtime::kDescriptors +
                                runtime::kDescriptorsOfAWorker *
                                    static_cast<std::size_t>(options.spec.local_world_size));
  if (auto claimed = io::become_subreaper(); !claimed) return tl::unexpected(claimed.error());
  auto loop = io::Loop::open();
  if (!loop) return tl::unexpected(loop.error());
  // Before any thread, because signals are blocked only in those that come later.
  std::unique_ptr<runtime::AgentHost> agent;
  const auto logs = options.logs;
  // A signal to share ends nothing.
  runtime::SignalChoice choice{.handle = options.signals_to_handle,
                               .forward = options.signals_to_forward};
  for (const int number : options.signals_to_share) {
    std::erase(choice.handle, number);
    std::erase(choice.forward, number);
    choice.forward.push_back(number);
  }
  if (auto heard = runtime::hear_signals(
          **loop, choice, [&](const io::SignalEvent& event) { agent->on_signal(event); },
          [&, shared = options.signals_to_share](const io::SignalEvent& event) {
            if (std::find(shared.begin(), shared.end(), event.number) != shared.end())
              agent->share(event);
            else
              agent->forward(event.number);
          });
      !heard)
    return tl::unexpected(heard.error());
  if (auto heard = (*loop)->on_signal(SIGCHLD, [&](const io::SignalEvent&) { agent->on_child(); });
      !heard)
    return tl::unexpected(heard.error());
  auto host = runtime::WorkerHost::open(options.workers);
  if (!host) return tl::unexpected(host.error());
  // Behind the guard, which would keep the port if we were killed.
  std::unique_ptr<runtime::HealthServer> health;
  if (options.health) {
    auto started = open_health_port(*options.health, **loop, **host, agent);
    if (!started) return tl::unexpected(started.error());
    health = std::move(*started);
  }
  // Log lines stay clear of the workers' lines, and look like all the others.
  std::optional<runtime::LogSink> sink;
  if (options.workers.warning_line)
    sink.emplace([&host, line = options.workers.warning_line](const std::string& text) {
      (*host)->pump().print(line(text));
    });
  agent = std::make_unique<runtime::AgentHost>(**loop, **host, std::move(options));
  if (health) agent->on_change([&] { health->publish(agent->health()); });
  if (auto opened = agent->open_watchdog(); !opened) return tl::unexpected(opened.error());
  agent->begin();
  (*loop)->run();
  agent->on_change({});
  health.reset();
  (*host)->pump().flush_console(runtime::kConsolePatience);
  RunResult result = agent->take_result();
  agent.reset();
  sink.reset();
  logs->over(!result.failed());
  return result;
}

}  // namespace regroup
