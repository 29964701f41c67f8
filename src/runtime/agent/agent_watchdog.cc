// The agent's watchdog: whose timers count, and what becomes of whoever is late.
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "io/file/pipe.h"
#include "io/loop/clock.h"
#include "io/process/process_table.h"
#include "io/process/process_watch.h"
#include "io/process/signals.h"
#include "runtime/agent/agent_host.h"

namespace regroup::runtime {

namespace {

// Whoever sends one of these wants the end of the process; others are messages, which the process
// may well heed and live on.
bool is_deadly(int signal) {
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGQUIT ||
         signal == SIGABRT;
}

}  // namespace

Result<void> AgentHost::open_watchdog() {
  if (!options_.watchdog.enabled) return {};
  std::string path = options_.watchdog.path.empty() ? default_timer_path() : options_.watchdog.path;
  // A worker may be in another directory when it opens it.
  std::error_code no_directory;
  if (const auto whole = std::filesystem::absolute(path, no_directory); !no_directory)
    path = whole.string();
  auto opened = WatchdogHost::open(
      loop_, path,
      {.belongs =
           [this](pid_t pid) {
             return group_ && !group_->over() && io::belongs_to(pid, local_->roots());
           },
       .expired = [this](const Expiry& expiry) { return expired(expiry); },
       .heard_from =
           [this](pid_t pid) {
             if (!group_ || group_->over()) return;
             for (const auto& [rank, worker] : group_->pids())
               if (worker == pid) local_->note_request(rank);
           },
       .heartbeat = [this] { heartbeats_->look(); },
       .note = [this](const std::string& text) { tell(AgentEvent::Noted{.text = text}); },
       .record =
           [this](const char* what, const core::watchdog::Timer& timer) {
             records_.watchdog({.event = what,
                                .pid = static_cast<std::int64_t>(timer.process.value),
                                .scope = timer.scope,
                                .expires_at = timer.said,
                                .signal = timer.signal});
           },
       .warn = [this](const std::string& text) { host_.warn(text); }});
  if (!opened) return tl::unexpected(opened.error());
  watchdog_ = std::move(*opened);
  if (host_.guard() != nullptr) host_.guard()->watch_pipe(path);
  heartbeats_ = std::make_unique<WorkerHeartbeats>(loop_, [this](int rank, const std::string& why) {
    if (group_) group_->end_for(rank, SIGKILL, why);
  });
  tell(AgentEvent::Noted{.text = "watchdog: timers are taken at " + path});
  records_.watchdog({.event = "watchdog started"});
  return {};
}

// Before the agent's own end is recorded, as the original does.
void AgentHost::end_watchdog() {
  if (!watchdog_ || std::exchange(watchdog_ended_, true)) return;
  tell(AgentEvent::Noted{.text = "watchdog: stopped"});
  records_.watchdog({.event = "watchdog stopped"});
}

bool AgentHost::expired(const Expiry& expiry) {
  if (!group_) return false;
  const auto pids = group_->pids();
  const auto worker = std::find_if(pids.begin(), pids.end(),
                                   [&](const auto& one) { return one.second == expiry.pid; });
  if (worker != pids.end() && is_deadly(expiry.signal)) {
    group_->end_for(worker->first, expiry.signal, expiry.why);
    return false;  // Its stacks are taken first.
  }
  const auto info = io::find_process(expiry.pid);
  std::string who = worker != pids.end() ? "the worker with local rank " +
                                               std::to_string(worker->first) + ", process "
                                         : "process ";
  who += std::to_string(expiry.pid) + (info ? " (" + info->name + ")" : "");
  const int error = expiry.process.signal(expiry.signal);
  if (error == ESRCH) return false;
  host_.warn(who + (error == 0 ? " gets " : " cannot be sent ") + io::signal_name(expiry.signal) +
             (error == 0 ? "" : " (" + io::error_in_words(error) + ")") + ": " + expiry.why);
  return error == 0;
}

}  // namespace regroup::runtime
