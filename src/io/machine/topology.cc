#include "io/machine/topology.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "io/file/kernel_files.h"

namespace regroup::io {
namespace {

constexpr int kMostCpus = 1 << 16;  // More numbers in a list are nonsense.

// The number that the text begins with, taken off it.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{}) return {};
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  return number;
}

std::optional<int> read_number(const std::string& path) {
  const auto text = read_text(path);
  if (!text) return {};
  std::string_view rest = *text;
  return take_number(rest);
}

std::vector<int> read_cpu_list(const std::string& path) {
  const auto text = read_text(path);
  if (!text) return {};
  return parse_cpu_list(*text).value_or(std::vector<int>{});
}

// The entries called `prefix` and a number.
std::vector<int> numbers_in(const std::string& directory, std::string_view prefix) {
  std::vector<int> numbers;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    std::string_view rest = std::string_view(name).substr(prefix.size());
    const auto number = take_number(rest);
    if (number && rest.empty()) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::map<int, int> node_of_each_cpu(const std::string& nodes) {
  std::map<int, int> node_of;
  for (const int node : numbers_in(nodes, "node"))
    for (const int cpu : read_cpu_list(fmt::format("{}/node{}/cpulist", nodes, node)))
      node_of[cpu] = node;
  return node_of;
}

int lowest_of(const std::vector<int>& cpus, int otherwise) {
  return cpus.empty() ? otherwise : cpus.front();
}

int outermost_cache(const std::string& caches) {
  int outermost = 0;
  int cache = -1;
  for (const int index : numbers_in(caches, "index")) {
    const std::string directory = fmt::format("{}/index{}", caches, index);
    const std::string type = read_text(directory + "/type").value_or(std::string());
    if (!type.starts_with("Unified") && !type.starts_with("Data")) continue;
    const int level = read_number(directory + "/level").value_or(0);
    if (level <= outermost) continue;
    outermost = level;
    cache = lowest_of(read_cpu_list(directory + "/shared_cpu_list"), -1);
  }
  return cache;
}

int device_node(const std::string& root, const Gpu& gpu, const std::set<int>& nodes) {
  if (nodes.size() == 1) return *nodes.begin();
  if (gpu.pci_address.empty()) return -1;
  const auto node =
      read_number(fmt::format("{}/sys/bus/pci/devices/{}/numa_node", root, gpu.pci_address));
  if (!node) return -1;
  return std::max(*node, 0);  // The firmware did not say. torchrun takes 0, and so do we.
}

}  // namespace

std::optional<std::vector<int>> parse_cpu_list(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with(' ')) text.remove_suffix(1);
  std::set<int> numbers;
  while (!text.empty()) {
    const auto first = take_number(text);
    auto last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      last = take_number(text);
    }
    if (!first || !last || *first < 0 || *last < *first || *last >= kMostCpus) return {};
    for (int number = *first; number <= *last; ++number) numbers.insert(number);
    if (text.empty()) break;
    if (!text.starts_with(',') || text.size() == 1) return {};
    text.remove_prefix(1);
  }
  return std::vector<int>(numbers.begin(), numbers.end());
}

Result<Topology> read_topology(const std::vector<Gpu>& gpus, const std::vector<int>& allowed,
                               const std::string& root) {
  const std::string cpus = root + "/sys/devices/system/cpu";
  const std::vector<int> online = read_cpu_list(cpus + "/online");
  if (online.empty())
    return fail(ErrorKind::Io, fmt::format("cannot tell which CPUs belong together: {}/online says "
                                           "nothing. Mount /sys, or leave out --numa-binding",
                                           cpus));
  const auto node_of = node_of_each_cpu(root + "/sys/devices/system/node");

  Topology topology;
  std::set<int> nodes;
  for (const int id : online) {
    const std::string directory = fmt::format("{}/cpu{}", cpus, id);
    const auto node = node_of.find(id);
    Cpu cpu;
    cpu.id = id;
    cpu.node = node == node_of.end() ? 0 : node->second;  // A kernel without NUMA has no nodes.
    cpu.socket = read_number(directory + "/topology/physical_package_id").value_or(0);
    cpu.core = lowest_of(read_cpu_list(directory + "/topology/thread_siblings_list"), id);
    cpu.cache = outermost_cache(directory + "/cache");
    cpu.allowed = std::find(allowed.begin(), allowed.end(), id) != allowed.end();
    nodes.insert(cpu.node);
    topology.cpus.push_back(cpu);
  }
  for (const Gpu& gpu : gpus) topology.device_nodes.push_back(device_node(root, gpu, nodes));
  return topology;
}

}  // namespace regroup::io
