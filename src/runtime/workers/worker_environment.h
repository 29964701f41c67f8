// The environment variables of a worker: those that torchrun sets, with the same values.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "regroup/result.h"

namespace regroup::runtime {

using Environment = std::map<std::string, std::string>;

// Where a worker stands in its run. `local` is within the node, `group` counts nodes, `role` is
// among the workers of the same role.
struct WorkerPlace {
  int local_rank = 0;
  int local_world_size = 1;
  int rank = 0;
  int world_size = 1;
  int group_rank = 0;
  int group_world_size = 1;
  std::string role_name = "default";
  int role_rank = 0;
  int role_world_size = 1;

  std::string master_addr;
  std::uint16_t master_port = 0;
  bool use_agent_store = true;  // Workers are clients of a store at that address; none serves it.

  std::string run_id;
  int restart_count = 0;
  int max_restarts = 0;
  std::string signals_to_handle = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";

  // The worker sees one GPU only, as number 0, and takes itself for local rank 0.
  bool virtual_local_rank = false;

  // Of the watchdog; empty: there is none. An empty heartbeat file beside it: heartbeats are not
  // watched.
  std::string timer_file = {};
  std::string heartbeat_file = {};
};

// `ours`, and what the place adds. add_files() adds what is known only where a worker is started.
// InvalidArgument: with a virtual local rank, our CUDA_VISIBLE_DEVICES has no GPU for the worker.
Result<Environment> worker_environment(const Environment& ours, const WorkerPlace& place);

struct WorkerFiles {
  std::string error_file;
  std::string dump_file;  // Of Python's faulthandler; empty: none.
  int dump_signal = 0;
  std::string guard_mark = {};  // By which the guard knows what a worker has started; empty: none.
};
void add_files(Environment& environment, const WorkerFiles& files);

// Whether workers get OMP_NUM_THREADS=1, because there are several and the user said nothing: each
// would start a thread for every CPU. People want to know; say it once. Users who want another
// number put it into `ours`.
bool limits_omp_threads(const Environment& ours, int local_world_size);

}  // namespace regroup::runtime
