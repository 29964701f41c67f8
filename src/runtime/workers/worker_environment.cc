#include "runtime/workers/worker_environment.h"

#include <string_view>
#include <utility>
#include <vector>

#include "io/process/guard.h"

namespace regroup::runtime {
namespace {

constexpr const char* kOmpThreads = "OMP_NUM_THREADS";
constexpr const char* kVisibleDevices = "CUDA_VISIBLE_DEVICES";

// This holds for an empty list too, as Python splits it: it is one entry, which hides all GPUs.
std::vector<std::string> entries_of(std::string_view list) {
  std::vector<std::string> entries;
  for (;;) {
    const auto comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    entries.emplace_back(entry);
    if (comma == std::string_view::npos) return entries;
    list.remove_prefix(comma + 1);
  }
}

// ROCm reads CUDA's variable too, unless its own is set.
Result<std::string> only_device(const Environment& ours, const WorkerPlace& place) {
  const auto inherited = ours.find(kVisibleDevices);
  if (inherited == ours.end()) return std::to_string(place.local_rank);
  std::vector<std::string> entries = entries_of(inherited->second);
  const auto index = static_cast<std::size_t>(place.local_rank);
  if (index < entries.size()) return std::move(entries[index]);
  std::string message = "cannot give local rank ";
  message.append(std::to_string(place.local_rank)).append(" a GPU of its own: ");
  message.append(kVisibleDevices).append("=").append(inherited->second).append(" lists ");
  message.append(std::to_string(entries.size())).append(". List at least ");
  message.append(std::to_string(place.local_world_size));
  message.append(", or start fewer workers with --nproc-per-node");
  return fail(ErrorKind::InvalidArgument, std::move(message));
}

}  // namespace

Result<Environment> worker_environment(const Environment& ours, const WorkerPlace& place) {
  Environment theirs = ours;
  theirs["RANK"] = std::to_string(place.rank);
  theirs["WORLD_SIZE"] = std::to_string(place.world_size);
  theirs["LOCAL_RANK"] = std::to_string(place.local_rank);
  theirs["LOCAL_WORLD_SIZE"] = std::to_string(place.local_world_size);
  theirs["GROUP_RANK"] = std::to_string(place.group_rank);
  theirs["GROUP_WORLD_SIZE"] = std::to_string(place.group_world_size);
  theirs["ROLE_NAME"] = place.role_name;
  theirs["ROLE_RANK"] = std::to_string(place.role_rank);
  theirs["ROLE_WORLD_SIZE"] = std::to_string(place.role_world_size);
  theirs["MASTER_ADDR"] = place.master_addr;
  theirs["MASTER_PORT"] = std::to_string(place.master_port);
  theirs["TORCHELASTIC_RUN_ID"] = place.run_id;
  theirs["TORCHELASTIC_RESTART_COUNT"] = std::to_string(place.restart_count);
  theirs["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(place.max_restarts);
  // Workers compare it with exactly "True".
  theirs["TORCHELASTIC_USE_AGENT_STORE"] = place.use_agent_store ? "True" : "False";
  theirs["TORCHELASTIC_SIGNALS_TO_HANDLE"] = place.signals_to_handle;

  // If the user has set these two, even to nothing, they stay.
  theirs.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (limits_omp_threads(ours, place.local_world_size)) theirs[kOmpThreads] = "1";

  if (place.virtual_local_rank) {
    auto device = only_device(ours, place);
    if (!device) return tl::unexpected(std::move(device.error()));
    theirs[kVisibleDevices] = *std::move(device);
    theirs["LOCAL_RANK"] = "0";
  }
  if (!place.timer_file.empty()) {
    theirs["TORCHELASTIC_TIMER_FILE"] = place.timer_file;
    // Empty where there is none, for a worker must not find that of a launcher around us.
    theirs["REGROUP_HEARTBEAT_FILE"] = place.heartbeat_file;
  }
  return theirs;
}

void add_files(Environment& environment, const WorkerFiles& files) {
  environment["TORCHELASTIC_ERROR_FILE"] = files.error_file;
  if (!files.guard_mark.empty()) environment[io::Guard::kMarkName] = files.guard_mark;
  if (files.dump_file.empty()) return;
  environment["REGROUP_DUMP_FILE"] = files.dump_file;
  environment["REGROUP_DUMP_SIGNAL"] = std::to_string(files.dump_signal);
}

bool limits_omp_threads(const Environment& ours, int local_world_size) {
  return local_world_size > 1 && ours.find(kOmpThreads) == ours.end();
}

}  // namespace regroup::runtime
