// How many workers this node starts: --nproc-per-node.
#pragma once

#include <string>

#include "io/machine/devices.h"
#include "regroup/result.h"

namespace regroup::runtime {

// A number; "cpu": one for each CPU that we may use; "gpu": one for each visible GPU; "auto": as
// "gpu" if there are any, else as "cpu". InvalidArgument for everything else, and for none at all.
Result<int> count_workers(const std::string& nproc, const io::Devices& devices);

// For this machine. It looks no further than it must: for GPUs only with "gpu" and "auto".
Result<int> count_workers(const std::string& nproc);

}  // namespace regroup::runtime
