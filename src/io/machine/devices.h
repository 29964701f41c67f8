// What workers can run on: the CPUs that this process may use, and the GPUs that CUDA or HIP will
// show them. Finding out needs neither of the two, and opens no context on any GPU.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/machine/gpu.h"

namespace regroup::io {

struct Devices {
  std::vector<int> cpus = {};    // In the affinity mask, ascending.
  std::vector<Gpu> gpus = {};    // As workers will number them.
  std::size_t gpus_present = 0;  // Visible or not.
  std::string narrowed_by = {};  // "CUDA_VISIBLE_DEVICES=0,1"; empty: all that are present show.
};

// Loads NVML, which wakes up idle GPUs and may take a second: call it only if you need GPUs. For
// CPUs there is allowed_cpus().
Devices look_for_devices();

std::vector<int> allowed_cpus();

// ---- The parts, for tests ----

// Without NVML. `root` is where /proc, /sys and /dev are: "" but for tests.
std::vector<Gpu> find_nvidia_gpus(const std::string& root);
std::vector<Gpu> find_amd_gpus(const std::string& root);

// What CUDA shows of the GPUs under this CUDA_VISIBLE_DEVICES, as PyTorch counts them. The first
// entry decides whether all are numbers, beginnings of UUIDs, or MIG devices. An entry that fits no
// GPU, or more than one, ends the list; a GPU listed twice leaves none at all. Of MIG devices CUDA
// shows a process only the first.
std::vector<Gpu> visible_gpus(const std::vector<Gpu>& gpus, std::string_view list);

// The values of the variables of these names; empty: not set.
struct VisibleDevices {
  std::optional<std::string> cuda = {};
  std::optional<std::string> hip = {};
  std::optional<std::string> rocr = {};
};

// Without the CPUs. HIP counts within what ROCR leaves, and uses CUDA's list if it has none of its
// own.
Devices narrow_nvidia(std::vector<Gpu> gpus, const VisibleDevices& visible);
Devices narrow_amd(std::vector<Gpu> gpus, const VisibleDevices& visible);

}  // namespace regroup::io
