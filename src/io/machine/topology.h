// How the CPUs of this machine are related to each other and to the GPUs, read from sysfs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/machine/devices.h"
#include "regroup/result.h"

namespace regroup::io {

// Cores and caches are named by the lowest number among the CPUs that share them.
struct Cpu {
  int id = 0;
  int node = 0;
  int socket = 0;
  int core = 0;
  int cache = -1;        // The outermost data cache; -1: not known, as in many virtual machines.
  bool allowed = false;  // For this process.
};

struct Topology {
  std::vector<Cpu> cpus = {};          // Online, ascending.
  std::vector<int> device_nodes = {};  // The NUMA node of each GPU; -1: not known.
};

// `root` is where /sys is: "" but for tests.
Result<Topology> read_topology(const std::vector<Gpu>& gpus, const std::vector<int>& allowed,
                               const std::string& root = "");

// "0-2,4,6-7": ascending, each once. Empty: it is not such a list.
std::optional<std::vector<int>> parse_cpu_list(std::string_view text);

}  // namespace regroup::io
