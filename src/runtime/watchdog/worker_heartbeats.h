// The heartbeats of this node's workers. Each worker has a small file, mapped by it and by us, into
// which it stores when it beat and how soon it will again: a beat costs it two stores, and us
// nothing. A line in the timer pipe tells us that the first beat has come, or that the limit has
// changed; from then on we look when the last beat we know of has run out.
//
// Lives on the loop's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/file/shared_cells.h"
#include "io/loop/loop.h"
#include "regroup/result.h"

namespace regroup::runtime {

inline constexpr const char* kHeartbeatFile = "REGROUP_HEARTBEAT_FILE";
// What a file holds: 64-bit integers of this machine.
inline constexpr std::size_t kHeartbeatBeat = 0;   // CLOCK_MONOTONIC in ns, of the last beat.
inline constexpr std::size_t kHeartbeatLimit = 1;  // In ns; 0: not watched.
inline constexpr std::size_t kHeartbeatCells = 8;

class WorkerHeartbeats {
 public:
  // Called with the reason why a worker is to be ended, once for each.
  using Silenced = std::function<void(int local_rank, const std::string& why)>;
  WorkerHeartbeats(io::Loop& loop, Silenced silenced);

  // Makes new files for this many workers. Returns their paths.
  Result<std::vector<std::string>> open(int workers);
  // A worker's heartbeat has begun, or has another limit.
  void look();
  // The workers are over.
  void close();

 private:
  void judge();

  Silenced silenced_;
  std::vector<std::unique_ptr<io::SharedCells>> cells_;  // Null: it was reported as silent.
  io::Timer deadline_;
};

}  // namespace regroup::runtime
