#include "runtime/hang_look.h"

#include "io/process_look.h"
#include "io/process_table.h"

namespace regroup::runtime {

using core::hang::Sample;

std::vector<std::optional<Sample>> look_at_workers(const std::vector<WatchedWorker>& workers) {
  const auto everybody = io::list_processes();
  std::vector<std::optional<Sample>> samples;
  samples.reserve(workers.size());
  for (const WatchedWorker& worker : workers) {
    samples.emplace_back();
    if (worker.pid == 0) continue;
    Sample sample{.requests = worker.requests};
    for (const io::ProcessInfo& process : io::belonging_to(everybody, {.leaders = {worker.pid}})) {
      const auto use = io::use_of(process.pid);
      if (!use) continue;
      sample.cpu += use->cpu;
      sample.moved += use->read;
      (process.pid == worker.pid ? sample.written : sample.moved) += use->written;
      if (process.state == 'D' || process.state == 'T' || process.state == 't') sample.held = true;
    }
    samples.back() = sample;
  }
  return samples;
}

}  // namespace regroup::runtime
