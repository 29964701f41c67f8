#include "runtime/workers/worker_service.h"

#include <signal.h>

#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "io/loop/clock.h"
#include "io/loop/loop.h"
#include "io/process/process.h"
#include "io/process/signals.h"
#include "runtime/common/limits.h"
#include "runtime/common/log.h"
#include "runtime/workers/local_processes.h"
#include "runtime/workers/worker_group.h"
#include "runtime/workers/worker_host.h"

namespace regroup::runtime {

using core::supervision::SignalMeaning;

namespace {

std::string started_text(std::size_t count, Duration took) {
  char millis[32];
  std::snprintf(millis, sizeof millis, "%.1f", static_cast<double>(took.count()) / 1e6);
  return count_of(count, "worker") + " started in " + millis + " ms";
}

}  // namespace

Result<WorkerServiceResult> run_workers(WorkerServiceOptions options) {
  const Instant begun = io::now();
  options.spec.claim_orphans = true;
  options.spec.give_up_start = [&signals = options.signals.handle] {
    return io::is_pending(signals);
  };
  io::raise_open_files();
  io::make_room_for_descriptors(kDescriptors +
                                kDescriptorsOfAWorker * options.spec.commands.size());
  if (auto claimed = io::become_subreaper(); !claimed) return tl::unexpected(claimed.error());
  auto loop = io::Loop::open();
  if (!loop) return tl::unexpected(loop.error());

  // Before any thread: signals are then blocked in later threads, and the guard is small.
  std::unique_ptr<WorkerHost> host;
  std::unique_ptr<LocalProcesses> processes;
  std::unique_ptr<WorkerGroup> group;
  std::optional<WorkersResult> result;
  core::supervision::StopSignals signals;
  const auto tell = [&](const std::string& line) { host->pump().print("regroup: " + line); };
  const auto handled = [&](const io::SignalEvent& event) {
    if (group->over()) return;  // Nothing is left to be stopped.
    const core::supervision::StopSignal signal{.number = event.number, .deliberate = is_key(event)};
    const auto meaning = signals.hear(signal, io::now());
    tell(describe_signal(event) + what_follows(meaning, true, signal));
    if (meaning == SignalMeaning::First) group->stop(event.number, options.spec.grace);
    if (meaning == SignalMeaning::Again) group->kill();
  };
  const auto forwarded = [&](const io::SignalEvent& event) { group->forward(event.number); };
  if (auto heard = hear_signals(**loop, options.signals, handled, forwarded); !heard)
    return tl::unexpected(heard.error());
  const auto child_ended = [&](const io::SignalEvent&) {
    processes->reap_orphans();
    group->on_child();
  };
  if (auto heard = (*loop)->on_signal(SIGCHLD, child_ended); !heard)
    return tl::unexpected(heard.error());
  auto opened = WorkerHost::open(options.spec);
  if (!opened) return tl::unexpected(opened.error());
  host = std::move(*opened);
  const LogSink sink(tell);  // The pump does not wait for a console that does not read.
  processes = std::make_unique<LocalProcesses>(**loop, *host, options.spec, options.logs);
  group = std::make_unique<WorkerGroup>(**loop, Backend{*processes, processes.get()}, options.spec,
                                        GroupEvents{.waiting = tell, .over = [&](auto over) {
                                                      result = std::move(over);
                                                      (*loop)->stop();
                                                    }});
  if (auto started = group->start(); !started) {
    options.logs->never_started();
    const int number = io::pending_of(options.signals.handle);
    if (started.error().kind != ErrorKind::Cancelled || number == 0)
      return tl::unexpected(started.error());
    tell(io::signal_name(number) + ": " + started.error().message);
    host->pump().flush_console(kConsolePatience);
    return WorkerServiceResult{.workers = {}, .signal = number};
  }
  if (options.verbose) tell(started_text(group->pids().size(), io::now() - begun));
  (*loop)->run();
  options.logs->over(result->succeeded);
  // Through the pump, which does not wait for a console that does not read.
  if (options.report)
    if (std::string text = options.report(*result); !text.empty()) {
      if (text.back() == '\n') text.pop_back();
      host->pump().print(text);
    }
  host->pump().flush_console(kConsolePatience);
  return WorkerServiceResult{.workers = std::move(*result), .signal = signals.first()};
}

}  // namespace regroup::runtime
