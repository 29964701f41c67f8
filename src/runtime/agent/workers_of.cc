#include "runtime/agent/workers_of.h"

#include <utility>

#include "io/process/signals.h"
#include "runtime/workers/worker_environment.h"

namespace regroup::runtime {
namespace {

std::string names_of(const std::vector<int>& signals) {
  std::string names;
  for (const int number : signals) names += (names.empty() ? "" : ",") + io::signal_name(number);
  return names;
}

}  // namespace

Result<WorkersSpec> workers_of(const AgentOptions& options, const JoinedRound& round,
                               int restart_count, const WatchdogFiles& files) {
  const WorkerSpec& spec = options.spec;
  WorkersSpec workers = options.workers;
  workers.attempt = {
      .run_id = options.rendezvous.run_id, .restart_count = restart_count, .workers = {}};
  workers.commands.clear();
  for (int rank = 0; rank < spec.local_world_size; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    const WorkerPlace place{
        .local_rank = rank,
        .local_world_size = spec.local_world_size,
        .rank = static_cast<int>(round.ranks.base_global_rank + rank),
        .world_size = static_cast<int>(round.ranks.global_world_size),
        .group_rank = static_cast<int>(round.info.rank),
        .group_world_size = static_cast<int>(round.info.world_size),
        .role_name = spec.role,
        .role_rank = static_cast<int>(round.ranks.base_role_rank + rank),
        .role_world_size = static_cast<int>(round.ranks.role_world_size),
        .master_addr = round.info.bootstrap.address,
        .master_port = round.info.bootstrap.port,
        .use_agent_store = round.use_agent_store,
        .run_id = options.rendezvous.run_id,
        .restart_count = restart_count,
        .max_restarts = spec.max_restarts,
        .signals_to_handle = names_of(options.signals_to_handle),
        .virtual_local_rank = spec.virtual_local_rank,
        .timer_file = files.timers,
        .heartbeat_file = index < files.heartbeats.size() ? files.heartbeats[index] : ""};
    auto environment = worker_environment(spec.environment, place);
    if (!environment) return tl::unexpected(environment.error());
    workers.attempt.workers.push_back({rank, place.rank, spec.role});
    workers.commands.push_back(
        {.argv = spec.command,
         .environment = std::move(*environment),
         .cpus = index < spec.cpus.size() ? spec.cpus[index] : std::vector<int>()});
  }
  return workers;
}

}  // namespace regroup::runtime
