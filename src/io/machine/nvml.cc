#include "io/machine/nvml.h"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <string>

namespace regroup::io {
namespace {

// As in nvml.h, which is not there to be included: these declarations are frozen by their names.
using NvmlDevice = void*;
struct NvmlPciInfo {
  char legacy_address[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned ids[2];
  char address[32];
};
constexpr unsigned kUuidBytes = 96;

// The library, initialised. Lives as long as one look at the machine.
class Nvml {
 public:
  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    int (*init)() = nullptr;
    initialised_ =
        load(init, "nvmlInit_v2") && load(shutdown_, "nvmlShutdown") &&
        load(count_, "nvmlDeviceGetCount_v2") && load(handle_, "nvmlDeviceGetHandleByIndex_v2") &&
        load(uuid_, "nvmlDeviceGetUUID") && load(pci_, "nvmlDeviceGetPciInfo_v3") && init() == 0;
    // Drivers older than MIG lack these two, and so they lack MIG devices.
    load(mig_count_, "nvmlDeviceGetMaxMigDeviceCount");
    load(mig_handle_, "nvmlDeviceGetMigDeviceHandleByIndex");
  }
  ~Nvml() {
    if (initialised_) shutdown_();
    if (library_ != nullptr) ::dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Empty: NVML is not there, or cannot say.
  std::optional<std::vector<Gpu>> gpus() const {
    unsigned count = 0;
    if (!initialised_ || count_(&count) != 0) return {};
    std::vector<Gpu> found(count);  // A GPU that does not answer is still counted by CUDA.
    for (unsigned index = 0; index < count; ++index) describe(index, found[index]);
    return found;
  }

 private:
  template <class Function>
  bool load(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    return function != nullptr;
  }

  std::string uuid_of(NvmlDevice device) const {
    std::array<char, kUuidBytes + 1> text{};
    return uuid_(device, text.data(), kUuidBytes) == 0 ? std::string(text.data()) : std::string();
  }

  void describe(unsigned index, Gpu& gpu) const {
    NvmlDevice device = nullptr;
    if (handle_(index, &device) != 0) return;
    gpu.uuid = uuid_of(device);
    NvmlPciInfo pci{};
    if (pci_(device, &pci) == 0) {
      char address[32];
      std::snprintf(address, sizeof address, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
      gpu.pci_address = address;
    }

    unsigned places = 0;
    if (mig_count_ == nullptr || mig_handle_ == nullptr || mig_count_(device, &places) != 0) return;
    for (unsigned place = 0; place < places; ++place) {
      NvmlDevice mig = nullptr;
      if (mig_handle_(device, place, &mig) == 0) gpu.mig_uuids.push_back(uuid_of(mig));
    }
  }

  void* library_;
  bool initialised_ = false;
  int (*shutdown_)() = nullptr;
  int (*count_)(unsigned*) = nullptr;
  int (*handle_)(unsigned, NvmlDevice*) = nullptr;
  int (*uuid_)(NvmlDevice, char*, unsigned) = nullptr;
  int (*pci_)(NvmlDevice, NvmlPciInfo*) = nullptr;
  int (*mig_count_)(NvmlDevice, unsigned*) = nullptr;
  int (*mig_handle_)(NvmlDevice, unsigned, NvmlDevice*) = nullptr;
};

}  // namespace

std::optional<std::vector<Gpu>> nvml_gpus() { return Nvml().gpus(); }

}  // namespace regroup::io
