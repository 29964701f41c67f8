#include "runtime/evidence/hang_look.h"

#include <set>
#include <string_view>

#include "io/process/process_look.h"
#include "io/process/process_table.h"

namespace regroup::runtime {

using core::hang::Sample;

pid_t behind_shells(const std::vector<io::ProcessInfo>& everybody, pid_t pid) {
  static const std::set<std::string_view> shells = {"sh",  "bash", "dash",   "zsh",
                                                    "ksh", "env",  "numactl"};
  for (std::size_t depth = 0; depth < everybody.size(); ++depth) {
    const io::ProcessInfo* self = nullptr;
    const io::ProcessInfo* child = nullptr;
    int children = 0;
    for (const io::ProcessInfo& process : everybody) {
      if (process.pid == pid) self = &process;
      if (process.parent == pid && process.state != 'Z') {
        child = &process;
        ++children;
      }
    }
    if (self == nullptr || children != 1 || !shells.contains(self->name)) break;
    pid = child->pid;
  }
  return pid;
}

std::vector<std::optional<Sample>> look_at_workers(const std::vector<WatchedWorker>& workers) {
  const auto everybody = io::list_processes();
  std::vector<std::optional<Sample>> samples;
  samples.reserve(workers.size());
  for (const WatchedWorker& worker : workers) {
    samples.emplace_back();
    if (worker.pid == 0) continue;
    Sample sample{.requests = worker.requests};
    sample.turns = io::times_asleep(behind_shells(everybody, worker.pid));
    for (const io::ProcessInfo& process : io::belonging_to(everybody, {.leaders = {worker.pid}})) {
      const auto use = io::use_of(process.pid);
      if (!use) continue;
      sample.cpu += use->cpu;
      sample.moved += use->read + use->on_disk;
      // A process that made itself a session of its own (such as a monitor) may write what it
      // likes.
      (process.session == worker.pid ? sample.written : sample.moved) += use->written;
      if (process.state == 'T' || io::has_held_thread(process.pid)) sample.held = true;
    }
    samples.back() = sample;
  }
  return samples;
}

}  // namespace regroup::runtime
