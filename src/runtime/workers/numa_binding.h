// Which CPUs each worker may run on: --numa-binding. Decides only; what starts workers binds them.
#pragma once

#include <string_view>
#include <vector>

#include "io/machine/topology.h"
#include "regroup/result.h"

namespace regroup::runtime {

// Each begins with the NUMA node of the worker's GPU, which is the one numbered like its local
// rank, and takes from it, of the CPUs that we may use:
enum class NumaMode {
  Node,         // all;
  Socket,       // all, and those of the other nodes on the same socket;
  Exclusive,    // whole cores, which the GPUs of the node share out evenly;
  CoreComplex,  // the CPUs around one outermost cache, another for each GPU while there are any.
};

// "node", "socket", "exclusive", "core-complex".
Result<NumaMode> parse_numa_mode(std::string_view text);

struct NumaBinding {
  std::vector<int> cpus;   // Ascending, never empty.
  std::vector<int> nodes;  // The nodes that these are on; for WorkerCommand::memory_nodes.
  friend bool operator==(const NumaBinding&, const NumaBinding&) = default;
};

// By local rank. Refused: there are not enough CPUs that we may use; a caller may go on without
// binding. InvalidArgument: a worker has no GPU, or it is not known where the GPU is.
Result<std::vector<NumaBinding>> numa_bindings(NumaMode mode, const io::Topology& topology,
                                               int workers);

// On this machine, by the name of the mode.
Result<std::vector<NumaBinding>> bind_to_numa(const std::string& mode, int workers);

}  // namespace regroup::runtime
