// NVIDIA's GPUs, as the library of their driver knows them. For this room alone.
#pragma once

#include <optional>
#include <vector>

#include "io/machine/gpu.h"

namespace regroup::io {

// By PCI address, which is how NVML counts. Empty: the library is not there, or cannot say.
// Loads it, and unloads it again: regroup is built without it, and most machines lack it.
std::optional<std::vector<Gpu>> nvml_gpus();

}  // namespace regroup::io
