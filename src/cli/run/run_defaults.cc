#include "cli/run/run_defaults.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "base/endpoint.h"
#include "base/text.h"
#include "base/text_parts.h"
#include "base/utf8.h"
#include "cli/flags/node_range.h"
#include "cli/flags/time_flag.h"
#include "runtime/rendezvous/rendezvous_settings.h"
#include "runtime/session/session_secret.h"

namespace regroup::cli {
namespace {

constexpr std::int64_t kMasterPort = 29500;
constexpr const char* kMeetingTimeout = "900";  // Seconds; of the static backend.

using Uuid = std::array<unsigned char, 16>;

Uuid random_uuid() {
  std::random_device dice;
  Uuid bytes;
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(dice());
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);  // Version 4: random.
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  return bytes;
}

std::string uuid_text() {
  std::string text;
  for (const unsigned char byte : random_uuid()) {
    if (text.size() == 8 || text.size() == 13 || text.size() == 18 || text.size() == 23)
      text += '-';
    constexpr std::string_view kHex = "0123456789abcdef";
    text += {kHex[byte >> 4], kHex[byte & 15]};
  }
  return text;
}

// The same as one decimal number: torchrun gives it to a run without a name.
std::string uuid_number() {
  Uuid bytes = random_uuid();
  std::string digits;
  while (std::any_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte != 0; })) {
    unsigned remainder = 0;
    for (unsigned char& byte : bytes) {
      remainder = remainder * 256 + byte;
      byte = static_cast<unsigned char>(remainder / 10);
      remainder %= 10;
    }
    digits += static_cast<char>('0' + remainder);
  }
  std::reverse(digits.begin(), digits.end());
  return digits;
}

class Resolver {
 public:
  explicit Resolver(const RunFlags& flags) : flags_(flags) {}

  Result<RunPlan> resolve() {
    using Step = Result<void> (Resolver::*)();
    for (const Step step :
         {&Resolver::choose_mode, &Resolver::count_nodes, &Resolver::read_numbers,
          &Resolver::read_config, &Resolver::choose_meeting, &Resolver::check_groups,
          &Resolver::read_secret, &Resolver::check_output})
      if (auto good = (this->*step)(); !good) return tl::unexpected(good.error());
    // The nodes tell each other their roles as text.
    if (valid_utf8(flags_.role) != flags_.role) return wrong("role", flags_.role, "text in UTF-8");
    plan_.role = flags_.role;
    const auto nproc = python_int(flags_.nproc_per_node);
    plan_.nproc = nproc ? std::to_string(*nproc) : flags_.nproc_per_node;
    plan_.numa_binding = flags_.numa_binding;
    plan_.virtual_local_rank = flags_.virtual_local_rank;
    return std::move(plan_);
  }

 private:
  tl::unexpected<Error> wrong(const std::string& option, const std::string& value,
                              const std::string& wanted) const {
    return fail(
        ErrorKind::InvalidArgument,
        fmt::format("{} is {}; it takes {}", flags_.named(option), printable(value), wanted));
  }

  tl::unexpected<Error> wrong(const std::string& option, const Error& error) const {
    return fail(ErrorKind::InvalidArgument, flags_.named(option) + ": " + error.message);
  }

  Result<void> choose_mode() {
    if (flags_.run_path) {
      plan_.mode = RunMode::RunPath;
    } else if (flags_.no_python && flags_.module) {
      return fail(ErrorKind::InvalidArgument,
                  fmt::format("{} and {} exclude each other: a module needs Python. Leave one out",
                              flags_.named("no-python"), flags_.named("module")));
    } else if (flags_.no_python || flags_.module) {
      plan_.mode = flags_.module ? RunMode::Module : RunMode::Program;
    }
    return {};
  }

  Result<void> count_nodes() {
    const std::string& text = flags_.nnodes;
    const std::size_t colon = text.find(':');
    const auto min = python_int(text.substr(0, colon));
    const auto max = colon == std::string::npos ? min : python_int(text.substr(colon + 1));
    if (!min || !max || *min < 1 || *max < *min)
      return wrong("nnodes", text, "a number of nodes: 4, or 2:8 for two to eight");
    plan_.rendezvous.min_nodes = *min;
    plan_.rendezvous.max_nodes = *max;
    return {};
  }

  Result<void> read_numbers() {
    auto rules = parse_run_rules(flags_.restarts, flags_.max_restarts);
    if (!rules) {
      // A value from a variable is named after the variable.
      const std::string flag = "--max-restarts is ";
      if (rules.error().message.starts_with(flag))
        return fail(ErrorKind::InvalidArgument, flags_.named("max-restarts") + " is " +
                                                    rules.error().message.substr(flag.size()));
      return tl::unexpected(rules.error());
    }
    plan_.rules = std::move(*rules);
    if (!(seconds_of(flags_.monitor_interval).value_or(0) > 0))
      return wrong("monitor-interval", flags_.monitor_interval,
                   std::string(kTakesTime) + "; more than 0");
    rank_ = python_int(flags_.node_rank).value_or(-1);
    if (rank_ < 0) return wrong("node-rank", flags_.node_rank, "a rank, 0 or more");
    if (has("master-port") || !flags_.master_port.empty()) {
      port_ = python_int(flags_.master_port).value_or(-1);
      if (*port_ < 0 || *port_ > 65535)
        return wrong("master-port", flags_.master_port, "a port, 0 to 65535");
    }
    return {};
  }

  Result<void> read_config() {
    auto config = parse_rendezvous_config(flags_.rdzv_conf);
    if (!config) return wrong("rdzv-conf", config.error());
    constexpr std::array<std::pair<const char*, const char*>, 6> kFlags{
        {{"backend", "--rdzv-backend"},
         {"endpoint", "--rdzv-endpoint"},
         {"run_id", "--rdzv-id"},
         {"min_nodes", "--nnodes"},
         {"max_nodes", "--nnodes"},
         {"local_addr", "--local-addr"}}};
    for (const auto& [key, flag] : kFlags)
      if (config->contains(key))
        return fail(ErrorKind::InvalidArgument, fmt::format("{}: {} has a flag of its own; pass {}",
                                                            flags_.named("rdzv-conf"), key, flag));
    config->emplace("timeout", kMeetingTimeout);
    plan_.rendezvous.config = std::move(*config);
    return {};
  }

  Result<void> choose_meeting() {
    RendezvousParameters& rendezvous = plan_.rendezvous;
    rendezvous.local_addr = flags_.local_addr;
    rendezvous.expected_nodes = split_names(flags_.expect);
    const bool is_static = flags_.rdzv_backend == "static";
    if (flags_.standalone ||
        (is_static && flags_.rdzv_endpoint.empty() && !port_ && rendezvous.max_nodes == 1))
      return meet_alone();
    rendezvous.backend = flags_.rdzv_backend;
    rendezvous.endpoint = flags_.rdzv_endpoint;
    rendezvous.run_id = flags_.rdzv_id;
    if (rendezvous.run_id.empty()) {
      rendezvous.run_id = uuid_number();
      plan_.warnings.push_back(fmt::format(
          "{} is empty; this run is called {}. Nodes that should meet need the same name on each",
          flags_.named("rdzv-id"), rendezvous.run_id));
    }
    return is_static ? meet_by_rank() : meet_freely();
  }

  Result<void> meet_alone() {
    RendezvousParameters& rendezvous = plan_.rendezvous;
    rendezvous.backend = "c10d";
    rendezvous.endpoint = "localhost:0";
    rendezvous.run_id = uuid_text();
    if (rendezvous.min_nodes > 1)
      return fail(ErrorKind::InvalidArgument,
                  fmt::format("{} is for one node, but {} is {}, and no other could find this one. "
                              "Leave one of the two out",
                              flags_.named("standalone"), flags_.named("nnodes"),
                              printable(flags_.nnodes)));
    const std::string why = flags_.standalone ? flags_.named("standalone") : "one node";
    if (rendezvous.max_nodes > 1)
      plan_.warnings.push_back(
          fmt::format("{}: {}={} waits for more nodes, but no other can find this one", why,
                      flags_.named("nnodes"), flags_.nnodes));
    const std::array<std::array<std::string, 3>, 6> unused{
        {{"rdzv-backend", flags_.rdzv_backend, flags_.standalone ? "c10d" : "static"},
         {"rdzv-endpoint", flags_.rdzv_endpoint, ""},
         {"rdzv-id", flags_.rdzv_id, "none"},
         {"master-addr", flags_.master_addr, "127.0.0.1"},
         {"master-port", flags_.master_port, ""},
         {"node-rank", flags_.node_rank, "0"}}};
    std::string discarded;
    int count = 0;
    for (const auto& [option, value, harmless] : unused) {
      if (!has(option) || value == harmless) continue;
      discarded += fmt::format("{}{}={}", count++ == 0 ? "" : ", ", flags_.named(option), value);
    }
    if (count > 0)
      plan_.warnings.push_back(fmt::format(
          "{}: {} {} no effect; the run id is random, and the port any free one of this machine{}",
          why, discarded, count == 1 ? "has" : "have",
          flags_.standalone ? "" : ". Pass --rdzv-endpoint or --master-port to choose"));
    return {};
  }

  Result<void> meet_by_rank() {
    RendezvousParameters& rendezvous = plan_.rendezvous;
    if (rank_ >= rendezvous.max_nodes)
      return wrong("node-rank", flags_.node_rank,
                   fmt::format("0 to {} with {}={}", rendezvous.max_nodes - 1,
                               flags_.named("nnodes"), flags_.nnodes));
    rendezvous.node_rank = rank_;
    rendezvous.config["rank"] = std::to_string(rank_);
    if (rendezvous.min_nodes != rendezvous.max_nodes)
      plan_.warnings.push_back(fmt::format(
          "{}={}: with the static backend all {} must come, once. Nodes come and go with "
          "--rdzv-backend=c10d",
          flags_.named("nnodes"), flags_.nnodes, rendezvous.max_nodes));
    if (has("rdzv-id") && flags_.rdzv_id != "none")
      plan_.warnings.push_back(fmt::format(
          "{}={}: the static backend does not tell runs apart, only endpoints. Nodes with the same "
          "id find each other with --rdzv-backend=c10d",
          flags_.named("rdzv-id"), flags_.rdzv_id));
    if (!rendezvous.endpoint.empty()) return {};
    if (flags_.master_addr.empty())
      return wrong("master-addr", "", "the address of the node with rank 0");
    rendezvous.endpoint = fmt::format(
        "{}:{}",
        is_ipv6_literal(flags_.master_addr) ? "[" + flags_.master_addr + "]" : flags_.master_addr,
        port_.value_or(kMasterPort));
    if (!has("master-addr")) warn_of_loopback(rendezvous.endpoint, "--master-addr");
    return {};
  }

  // Several nodes, and nothing says where they meet: right for a try on one machine, and for
  // nothing else.
  void warn_of_loopback(const std::string& endpoint, const std::string& flag) {
    if (plan_.rendezvous.max_nodes == 1) return;
    plan_.warnings.push_back(
        fmt::format("{}={}: the nodes meet at {}, which only this machine reaches. Pass {}, the "
                    "same on every node, if they are several machines",
                    flags_.named("nnodes"), flags_.nnodes, endpoint, flag));
  }

  Result<void> meet_freely() {
    RendezvousParameters& rendezvous = plan_.rendezvous;
    if (has("node-rank")) rendezvous.node_rank = rank_;
    if (rendezvous.backend == "c10d" && rendezvous.endpoint.empty() &&
        rendezvous.config.count("store_type") == 0)
      warn_of_loopback(fmt::format("localhost:{}", runtime::kRendezvousPort), "--rdzv-endpoint");
    if (rank_ != 0)
      plan_.warnings.push_back(fmt::format(
          "{}={}: with the {} backend it is only a wish. The static backend gives fixed ranks",
          flags_.named("node-rank"), flags_.node_rank, rendezvous.backend));
    for (const char* option : {"master-addr", "master-port"})
      if (rendezvous.endpoint.empty() && has(option))
        plan_.warnings.push_back(fmt::format(
            "{} has no effect with the {} backend. Where the nodes meet is told by --rdzv-endpoint",
            flags_.named(option), rendezvous.backend));
    return {};
  }

  Result<void> check_groups() {
    if (valid_utf8(flags_.topology_key) != flags_.topology_key)
      return wrong("topology-key", flags_.topology_key, "text in UTF-8");
    plan_.rendezvous.topology_key = flags_.topology_key;
    if (!flags_.topology_key.empty() && plan_.rendezvous.backend == "static")
      plan_.warnings.push_back(flags_.named("topology-key") +
                               " has no effect with the static backend: --node-rank is the order");
    return runtime::check_groups(plan_.rendezvous, plan_.rules.segment);
  }

  // It is read again where it is used, but mistakes must be reported before anything starts.
  Result<void> read_secret() {
    const std::string& file = flags_.rdzv_secret_file;
    if (!has("rdzv-secret-file")) return {};
    if (plan_.rendezvous.backend == "static")
      return fail(ErrorKind::InvalidArgument,
                  flags_.named("rdzv-secret-file") +
                      " needs a coordinator, which the static backend has not. Pass "
                      "--rdzv-backend=c10d");
    if (auto secret = runtime::Secret::read(file); !secret)
      return wrong("rdzv-secret-file", secret.error());
    plan_.rendezvous.secret_file = file;
    return {};
  }

  // The flags are checked again where they are used, but there a variable would be called by the
  // flag's name.
  Result<void> check_output() {
    const WorkerFlags& workers = flags_.workers;
    if (auto good = parse_streams(workers.redirects); !good)
      return wrong("redirects", good.error());
    if (auto good = parse_streams(workers.tee); !good) return wrong("tee", good.error());
    if (auto good = parse_ranks(workers.local_ranks); !good)
      return wrong("local-ranks-filter", good.error());
    return {};
  }

  bool has(const std::string& option) const { return flags_.given.contains(option); }

  const RunFlags& flags_;
  RunPlan plan_;
  std::int64_t rank_ = 0;
  std::optional<std::int64_t> port_;  // Empty: not given.
};

}  // namespace

Result<RunPlan> resolve(const RunFlags& flags) { return Resolver(flags).resolve(); }

}  // namespace regroup::cli
