// One GPU, by whichever way it was found.
#pragma once

#include <string>
#include <vector>

namespace regroup::io {

struct Gpu {
  std::string uuid = {};                    // "GPU-5d5b..." or "MIG-..."; empty: not known.
  std::string pci_address = {};             // "0000:19:00.0", as in /sys; empty: not known.
  std::vector<std::string> mig_uuids = {};  // The MIG devices it is divided into.
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

}  // namespace regroup::io
