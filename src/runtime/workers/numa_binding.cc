#include "runtime/workers/numa_binding.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "io/machine/devices.h"

namespace regroup::runtime {
namespace {

using io::Cpu;
using io::Topology;
using Cpus = std::vector<Cpu>;

constexpr std::string_view kBindingAdvice = "Choose another --numa-binding, or leave it out";

std::string cannot_bind(int local_rank) {
  std::string message = "cannot bind local rank ";
  return message.append(std::to_string(local_rank)).append(" to CPUs near its GPU: ");
}

Cpus allowed_on(const Topology& topology, const std::set<int>& nodes) {
  Cpus cpus;
  for (const Cpu& cpu : topology.cpus)
    if (cpu.allowed && nodes.count(cpu.node) > 0) cpus.push_back(cpu);
  return cpus;
}

// A node lies where its lowest CPU does. Those that we may not use count too: where a node lies
// does not depend on what we were given of it.
std::optional<int> socket_of(const Topology& topology, int node) {
  for (const Cpu& cpu : topology.cpus)
    if (cpu.node == node) return cpu.socket;
  return {};
}

std::set<int> nodes_around(const Topology& topology, int node) {
  std::set<int> nodes = {node};
  const auto socket = socket_of(topology, node);
  if (!socket) return nodes;
  for (const Cpu& cpu : topology.cpus)
    if (socket_of(topology, cpu.node) == socket) nodes.insert(cpu.node);
  return nodes;
}

// The position of a GPU among those of its node, and how many there are.
struct Share {
  std::size_t index = 0;
  std::size_t count = 0;
};

Share share_of(const Topology& topology, std::size_t device) {
  Share share;
  for (std::size_t other = 0; other < topology.device_nodes.size(); ++other) {
    if (topology.device_nodes[other] != topology.device_nodes[device]) continue;
    if (other < device) ++share.index;
    ++share.count;
  }
  return share;
}

// CPUs with the same number `by`, together, in the order of these numbers.
std::vector<Cpus> grouped(const Cpus& cpus, int Cpu::*by) {
  std::map<int, Cpus> groups;
  for (const Cpu& cpu : cpus) groups[cpu.*by].push_back(cpu);
  std::vector<Cpus> ordered;
  ordered.reserve(groups.size());
  for (auto& [key, group] : groups) ordered.push_back(std::move(group));
  return ordered;
}

// Empty: there are fewer cores than GPUs. If cores cannot be divided evenly, the first few get one
// more.
Cpus own_cores(const Cpus& of_node, Share share) {
  const std::vector<Cpus> cores = grouped(of_node, &Cpu::core);
  const std::size_t each = cores.size() / share.count;
  const std::size_t left_over = cores.size() % share.count;
  if (each == 0) return {};
  const std::size_t first = share.index * each + std::min(share.index, left_over);
  const std::size_t count = each + (share.index < left_over ? 1 : 0);
  Cpus own;
  for (std::size_t core = first; core < first + count; ++core)
    own.insert(own.end(), cores[core].begin(), cores[core].end());
  return own;
}

// The largest complexes go first: a cpuset may have left a single CPU of some.
Cpus own_complex(const Cpus& of_node, Share share) {
  std::vector<Cpus> complexes = grouped(of_node, &Cpu::cache);
  std::stable_sort(complexes.begin(), complexes.end(),
                   [](const Cpus& one, const Cpus& other) { return one.size() > other.size(); });
  return complexes[share.index % complexes.size()];
}

NumaBinding binding_to(const Cpus& cpus) {
  NumaBinding binding;
  std::set<int> nodes;
  for (const Cpu& cpu : cpus) {
    binding.cpus.push_back(cpu.id);
    nodes.insert(cpu.node);
  }
  std::sort(binding.cpus.begin(), binding.cpus.end());
  binding.nodes.assign(nodes.begin(), nodes.end());
  return binding;
}

std::string too_few_cores(int node, std::size_t cores, std::size_t devices) {
  std::string why = "NUMA node ";
  why.append(std::to_string(node)).append(" has ").append(std::to_string(cores));
  why.append(cores == 1 ? " core" : " cores").append(" that we may use, for ");
  return why.append(std::to_string(devices)).append(" GPUs. ").append(kBindingAdvice);
}

std::string no_cpu(const Topology& topology, int node) {
  std::vector<int> allowed;
  for (const Cpu& cpu : topology.cpus)
    if (cpu.allowed) allowed.push_back(cpu.id);
  std::string why = "we may use no CPU of NUMA node ";
  why.append(std::to_string(node)).append(", only ").append(in_ranges(allowed));
  return why.append(". Ask for CPUs of that node, or leave out --numa-binding");
}

Result<NumaBinding> binding_of(NumaMode mode, const Topology& topology, int local_rank) {
  const auto device = static_cast<std::size_t>(local_rank);
  if (device >= topology.device_nodes.size()) {
    std::string message = cannot_bind(local_rank);
    const std::size_t count = topology.device_nodes.size();
    message.append(count == 0 ? "no GPU is" : count == 1 ? "only 1 GPU is" : "only ");
    if (count > 1) message.append(std::to_string(count)).append(" GPUs are");
    message.append(" visible. Leave out --numa-binding");
    return fail(ErrorKind::InvalidArgument, std::move(message));
  }
  const int node = topology.device_nodes[device];
  if (node < 0) {
    std::string message = cannot_bind(local_rank);
    message.append("the NUMA node of that GPU is not known. Leave out --numa-binding");
    return fail(ErrorKind::InvalidArgument, std::move(message));
  }

  const bool whole_socket = mode == NumaMode::Socket;
  Cpus cpus =
      allowed_on(topology, whole_socket ? nodes_around(topology, node) : std::set<int>{node});
  if (cpus.empty())
    return fail(ErrorKind::Refused, cannot_bind(local_rank).append(no_cpu(topology, node)));
  const Share share = share_of(topology, device);
  switch (mode) {
    case NumaMode::Node:
    case NumaMode::Socket:
      return binding_to(cpus);
    case NumaMode::CoreComplex:
      return binding_to(own_complex(cpus, share));
    case NumaMode::Exclusive:
      break;
  }
  const Cpus own = own_cores(cpus, share);
  if (!own.empty()) return binding_to(own);
  const std::size_t cores = grouped(cpus, &Cpu::core).size();
  return fail(ErrorKind::Refused,
              cannot_bind(local_rank).append(too_few_cores(node, cores, share.count)));
}

}  // namespace

Result<NumaMode> parse_numa_mode(std::string_view text) {
  constexpr std::pair<std::string_view, NumaMode> kModes[] = {
      {"node", NumaMode::Node},
      {"socket", NumaMode::Socket},
      {"exclusive", NumaMode::Exclusive},
      {"core-complex", NumaMode::CoreComplex},
  };
  for (const auto& [name, mode] : kModes)
    if (text == name) return mode;
  return fail(ErrorKind::InvalidArgument,
              printable(text).append(" is no way of binding workers to CPUs. Pass "
                                     "--numa-binding=node, socket, exclusive or core-complex"));
}

Result<std::vector<NumaBinding>> numa_bindings(NumaMode mode, const Topology& topology,
                                               int workers) {
  std::vector<NumaBinding> bindings;
  for (int local_rank = 0; local_rank < workers; ++local_rank) {
    auto binding = binding_of(mode, topology, local_rank);
    if (!binding) return tl::unexpected(std::move(binding.error()));
    bindings.push_back(*std::move(binding));
  }
  return bindings;
}

Result<std::vector<NumaBinding>> bind_to_numa(const std::string& mode, int workers) {
  const auto parsed = parse_numa_mode(mode);
  if (!parsed) return tl::unexpected(parsed.error());
  const io::Devices devices = io::look_for_devices();
  const auto topology = io::read_topology(devices.gpus, devices.cpus);
  if (!topology) return tl::unexpected(topology.error());
  return numa_bindings(*parsed, *topology, workers);
}

}  // namespace regroup::runtime
