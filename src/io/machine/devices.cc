#include "io/machine/devices.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/text_parts.h"
#include "io/file/kernel_files.h"
#include "io/machine/nvml.h"

namespace regroup::io {
namespace {

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// The entries that are `prefix` and a number; by number, which is how drivers count.
std::vector<std::string> numbered_in(const std::string& directory, std::string_view prefix) {
  std::vector<std::pair<std::size_t, std::string>> numbered;
  for (std::string& name : names_in(directory)) {
    if (!name.starts_with(prefix)) continue;
    const auto number = to_number<std::size_t>(std::string_view(name).substr(prefix.size()));
    if (number) numbered.emplace_back(*number, std::move(name));
  }
  std::sort(numbered.begin(), numbered.end());
  std::vector<std::string> names;
  names.reserve(numbered.size());
  for (auto& [number, name] : numbered) names.push_back(std::move(name));
  return names;
}

// ---- Lists of visible devices ----

std::vector<std::string_view> entries_of(std::string_view list) {
  std::vector<std::string_view> entries;
  for (;;) {
    const auto comma = list.find(',');
    entries.push_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return entries;
    list.remove_prefix(comma + 1);
  }
}

// As strtoul: CUDA takes "1gpu" for 1.
std::optional<std::size_t> leading_number(std::string_view entry) {
  entry = trimmed(entry);
  if (entry.starts_with('+')) entry.remove_prefix(1);
  std::size_t number = 0;
  const auto parsed = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  if (parsed.ec != std::errc{}) return {};
  return number;
}

std::optional<std::size_t> gpu_with_uuid(const std::vector<Gpu>& gpus, std::string_view beginning) {
  std::optional<std::size_t> match;
  for (std::size_t index = 0; index < gpus.size(); ++index) {
    if (!gpus[index].uuid.starts_with(beginning)) continue;
    if (match) return {};
    match = index;
  }
  return match;
}

constexpr std::string_view kMig = "MIG-";
constexpr std::string_view kGpu = "GPU-";

std::vector<Gpu> visible_mig_device(const std::vector<Gpu>& gpus, std::string_view entry) {
  for (const Gpu& gpu : gpus) {
    for (const std::string& mig : gpu.mig_uuids)
      if (mig.starts_with(entry))
        return {Gpu{.uuid = mig, .pci_address = gpu.pci_address, .mig_uuids = {}}};
    // The spelling of drivers before R470, which later ones still accept: MIG-GPU-<uuid>/<gi>/<ci>.
    const std::string_view parent = entry.substr(kMig.size(), entry.find('/') - kMig.size());
    if (!gpu.uuid.empty() && parent == gpu.uuid)
      return {Gpu{.uuid = std::string(entry), .pci_address = gpu.pci_address, .mig_uuids = {}}};
  }
  return {};
}

void narrow(Devices& devices, std::string_view name, const std::optional<std::string>& list) {
  if (!list) return;
  devices.gpus = visible_gpus(devices.gpus, *list);
  if (!devices.narrowed_by.empty()) devices.narrowed_by += ' ';
  devices.narrowed_by.append(name).append("=").append(*list);
}

Devices all_of(std::vector<Gpu> gpus) {
  Devices devices;
  devices.gpus_present = gpus.size();
  devices.gpus = std::move(gpus);
  return devices;
}

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return {};
  return value;
}

}  // namespace

std::vector<Gpu> find_nvidia_gpus(const std::string& root) {
  std::vector<Gpu> gpus;
  const std::string directory = root + "/proc/driver/nvidia/gpus/";
  for (const std::string& address : names_in(directory)) {
    Gpu gpu{.uuid = {}, .pci_address = address, .mig_uuids = {}};
    const std::string text =
        read_text(std::string(directory).append(address).append("/information"))
            .value_or(std::string());
    constexpr std::string_view kLabel = "GPU UUID:";
    if (const auto label = text.find(kLabel); label != std::string::npos) {
      const auto begin = label + kLabel.size();
      gpu.uuid = trimmed(std::string_view(text).substr(begin, text.find('\n', begin) - begin));
      // "GPU-????????-..." until a process opens the device.
      if (gpu.uuid.find('?') != std::string::npos) gpu.uuid.clear();
    }
    gpus.push_back(std::move(gpu));
  }
  if (!gpus.empty()) return gpus;
  return std::vector<Gpu>(numbered_in(root + "/dev", "nvidia").size());
}

std::vector<Gpu> find_amd_gpus(const std::string& root) {
  std::vector<Gpu> gpus;
  const std::string nodes = root + "/sys/class/kfd/kfd/topology/nodes/";
  for (const std::string& node : numbered_in(nodes, "")) {
    // CPUs are nodes too, without SIMD units. What a container may not use cannot be read.
    const auto text = read_text(std::string(nodes).append(node).append("/properties"));
    if (!text || number_of(*text, "simd_count").value_or(0) == 0) continue;
    Gpu gpu;
    if (const auto id = number_of(*text, "unique_id").value_or(0); id != 0) {
      char uuid[32];
      std::snprintf(uuid, sizeof uuid, "GPU-%016llx", static_cast<unsigned long long>(id));
      gpu.uuid = uuid;
    }
    if (const auto place = number_of(*text, "location_id")) {
      const auto domain = static_cast<unsigned>(number_of(*text, "domain").value_or(0));
      const auto bits = static_cast<unsigned>(*place);  // Bus 8 bits, device 5, function 3.
      char address[32];
      std::snprintf(address, sizeof address, "%04x:%02x:%02x.%x", domain, bits >> 8 & 0xff,
                    bits >> 3 & 0x1f, bits & 7);
      gpu.pci_address = address;
    }
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

std::vector<Gpu> visible_gpus(const std::vector<Gpu>& gpus, std::string_view list) {
  const auto entries = entries_of(list);
  if (list.starts_with(kMig)) return visible_mig_device(gpus, entries.front());
  const bool by_uuid = list.starts_with(kGpu);
  std::vector<std::size_t> chosen;
  for (const std::string_view entry : entries) {
    if (by_uuid && !entry.starts_with(kGpu)) break;
    const auto index = by_uuid ? gpu_with_uuid(gpus, entry) : leading_number(entry);
    if (!index) break;
    if (std::find(chosen.begin(), chosen.end(), *index) != chosen.end()) return {};
    chosen.push_back(*index);
  }
  std::vector<Gpu> visible;
  for (const std::size_t index : chosen) {
    if (index >= gpus.size()) break;
    visible.push_back(gpus[index]);
  }
  return visible;
}

Devices narrow_nvidia(std::vector<Gpu> gpus, const VisibleDevices& visible) {
  Devices devices = all_of(std::move(gpus));
  narrow(devices, "CUDA_VISIBLE_DEVICES", visible.cuda);
  return devices;
}

Devices narrow_amd(std::vector<Gpu> gpus, const VisibleDevices& visible) {
  Devices devices = all_of(std::move(gpus));
  narrow(devices, "ROCR_VISIBLE_DEVICES", visible.rocr);
  if (visible.hip)
    narrow(devices, "HIP_VISIBLE_DEVICES", visible.hip);
  else
    narrow(devices, "CUDA_VISIBLE_DEVICES", visible.cuda);
  return devices;
}

Devices look_for_devices() {
  const VisibleDevices visible{.cuda = variable("CUDA_VISIBLE_DEVICES"),
                               .hip = variable("HIP_VISIBLE_DEVICES"),
                               .rocr = variable("ROCR_VISIBLE_DEVICES")};
  // NVML first: on a machine that a batch system divides, /proc and /dev show all of it.
  auto nvidia = nvml_gpus();
  if (!nvidia) nvidia = find_nvidia_gpus("");
  Devices devices = nvidia->empty() ? narrow_amd(find_amd_gpus(""), visible)
                                    : narrow_nvidia(*std::move(nvidia), visible);
  devices.cpus = allowed_cpus();
  return devices;
}

std::vector<int> allowed_cpus() {
  // The kernel refuses a set smaller than its own, and does not tell how large that is.
  constexpr std::size_t kMostCpus = 1 << 16;
  for (std::size_t size = CPU_SETSIZE; size <= kMostCpus; size *= 2) {
    std::vector<cpu_set_t> set(size / CPU_SETSIZE);
    const std::size_t bytes = set.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, set.data()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::vector<int> cpus;
    for (std::size_t cpu = 0; cpu < size; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set.data())) cpus.push_back(static_cast<int>(cpu));
    return cpus;
  }
  return {0};  // We run on some CPU.
}

}  // namespace regroup::io
