// NVIDIA's GPUs, as the library of their driver knows them. For this room alone.
#pragma once

#include <optional>
#include <vector>

#include "io/machine/gpu.h"

namespace regroup::io {

// By PCI address, which is NVML's order. Empty: the library is not there, or gives no answer. It is
// loaded, and unloaded again: regroup is built without it, and most machines lack it.
std::optional<std::vector<Gpu>> nvml_gpus();

}  // namespace regroup::io
