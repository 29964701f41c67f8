#include "cli/run/run_flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

#include "cli/flags/torchrun_flags.h"

namespace regroup::cli {
namespace {

// Adds options to one group of the help.
class Group {
 public:
  Group(CLI::App& command, std::string name) : command_(command), name_(std::move(name)) {}

  CLI::Option* value(const std::string& option, std::string& target, const std::string& type,
                     const std::string& help, char letter = 0) {
    CLI::Option* added =
        command_.add_option(both_spellings(option, letter), target, help)->type_name(type);
    if (!target.empty()) added->capture_default_str();
    return added->group(name_);
  }

  void flag(const std::string& option, bool& target, const std::string& help, char letter = 0) {
    command_.add_flag(both_spellings(option, letter), target, help)->group(name_);
  }

 private:
  CLI::App& command_;
  std::string name_;
};

void add_node_flags(CLI::App& command, RunFlags& flags) {
  Group nodes(command, "Nodes");
  nodes.value("nnodes", flags.nnodes, "N|MIN:MAX", "How many nodes: N, or MIN:MAX");
  nodes.flag("standalone", flags.standalone,
             "This node alone, on a free port. Not needed with one node and no endpoint");
  nodes.value("node-rank", flags.node_rank, "RANK",
              "This node's rank with the static backend; a wish with others");
  nodes.value("master-addr", flags.master_addr, "ADDRESS",
              "Of the node with rank 0; static backend only");
  nodes.value("master-port", flags.master_port, "PORT",
              "On that node; static backend only. Default 29500, or any with one node");
  nodes.value("local-addr", flags.local_addr, "ADDRESS",
              "This node's address as the others reach it; found by itself without");
  nodes.value("expect", flags.expect, "NAME,...",
              "Names of the nodes that should come; the missing are named while waiting");

  Group rendezvous(command, "Rendezvous");
  rendezvous.value("rdzv-backend", flags.rdzv_backend, "NAME",
                   "How the nodes meet: static (fixed ranks) or c10d (they come and go)");
  rendezvous.value("rdzv-endpoint", flags.rdzv_endpoint, "HOST[:PORT]",
                   "Where they meet: one of the nodes, the same on every node");
  rendezvous.value("rdzv-id", flags.rdzv_id, "ID", "Name of the run, the same on every node");
  rendezvous.value("rdzv-conf", flags.rdzv_conf, "KEY=VALUE,...",
                   "Timeouts and the like; docs/rendezvous.md has the keys");
  rendezvous.value("rdzv-secret-file", flags.rdzv_secret_file, "FILE",
                   "Meet only nodes with the secret in this file, the same on every node (c10d)");
}

void add_process_flags(CLI::App& command, RunFlags& flags) {
  Group workers(command, "Workers");
  workers.value("nproc-per-node", flags.nproc_per_node, "N",
                "Workers on this node: a number, gpu, cpu, or auto (GPUs if any, else CPUs)", 'n');
  workers.value("max-restarts", flags.max_restarts, "N[/TIME]",
                "How often the workers are started again after a failure; 3/1h: within an hour");
  workers.flag("module", flags.module, "SCRIPT is a module: python -m SCRIPT", 'm');
  workers.flag("no-python", flags.no_python, "SCRIPT is a program: run it directly");
  workers.flag("run-path", flags.run_path, "Run the script by Python's runpy");
  workers.value("python", flags.python, "PROGRAM",
                "The interpreter. Default PYTHON_EXEC, that of the active environment, PATH");
  workers.value("role", flags.role, "NAME", "Role of the workers: names them in prefixes");
  workers.value("numa-binding", flags.numa_binding, "HOW",
                "Keep workers near their GPU: node, socket, exclusive, core-complex");
  workers.flag("virtual-local-rank", flags.virtual_local_rank,
               "Every worker sees one GPU, and LOCAL_RANK 0");
  workers.flag("watchdog", flags.watchdog,
               "Serve countdown timers to workers; so does TORCHELASTIC_ENABLE_FILE_TIMER=1");
  workers.value("start-method", flags.start_method, "HOW",
                "For torchrun's sake: spawn, fork, forkserver");
  workers.value("monitor-interval", flags.monitor_interval, "SECONDS",
                "For torchrun's sake: a worker's end is seen at once, without looking");
}

void add_run_rule_flags(CLI::App& command, RunFlags& flags) {
  Group group(command, "Restarts, lost nodes and groups, where regroup hosts a c10d rendezvous");
  for (const RuleFlag& flag : rule_flags())
    group.value(flag.name, flags.restarts.rules.at(flag.name), flag.value, flag.help);
  group.value("preempt-signal", flags.restarts.preempt_signal, "SIGNAL,...",
              "What warns one node goes to the workers of all nodes, and ends nothing");
  group.value("topology-key", flags.topology_key, "KEY",
              "Equal on nodes near each other, as in one rack: their ranks stand together");
}

void add_other_flags(CLI::App& command, RunFlags& flags) {
  command
      .add_option("--exit-barrier-timeout", flags.exit_barrier_timeout,
                  "How long a node that is done waits for the others")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e9).description(""))
      ->capture_default_str()
      ->group("Stopping");

  Group shown(command, "What is shown");
  shown.flag("quiet", flags.quiet, "Only warnings, and what went wrong", 'q');
  shown.flag("verbose", flags.verbose, "Also what goes well", 'v');
  shown.value("color", flags.color, "WHEN",
              "Colours: auto (on a terminal, unless NO_COLOR is set), always, never");
  shown.value("log-format", flags.log_format, "FORMAT",
              "What the launcher itself says: text, or json (one object in each line)");
  shown.value("report", flags.report, "LAYOUT",
              "Of a failure: regroup, or torchrun (its layout, for programs that read it)");
  shown.value("event-log-handler", flags.event_log_handler, "NAME",
              "torchrun's events: null (nowhere), console (on standard error)");
  shown.value("event-log", flags.event_log, "FILE",
              "Append torchrun's events to it, as JSON lines");
  shown.value("metrics-log", flags.metrics_log, "FILE",
              "Append torchrun's metrics and ours to it, as JSON lines");

  Group health(command, "Health");
  health.value("health-port", flags.health_port, "[ADDRESS:]PORT",
               "Tell here over HTTP how this node is doing. Default "
               "TORCHELASTIC_HEALTH_CHECK_PORT, or nowhere");
  command
      .add_option("--health-limit", flags.health_limit,
                  "/healthz says 503 if the agent does not react for this long")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e9).description(""))
      ->capture_default_str()
      ->group("Health");

  Group other(command, "Other");
  other.flag("dry-run", flags.dry_run, "Say what would be run, and run nothing");
  other.value("exit-code", flags.exit_code, "WHOSE",
              "After a failure: worker (that of the worker), torchrun (always 1)");
  other.value("logs-specs", flags.logs_specs, "NAME",
              "Only 'default': Python plug-ins cannot run here");
  other.value("print-completion", flags.print_completion, "SHELL",
              "Print what completes these flags in bash or zsh");
  command.set_help_flag();  // Added again, to be last: groups are shown in the order of adding.
  command.set_help_flag("-h,--help", "Print this help")->group("Other");
}

}  // namespace

std::string RunFlags::named(const std::string& option) const {
  const auto found = given.find(option);
  return found == given.end() ? "--" + option : found->second;
}

void add_run_flags(CLI::App& command, RunFlags& flags) {
  add_node_flags(command, flags);
  add_process_flags(command, flags);
  add_run_rule_flags(command, flags);
  add_worker_flags(command, flags.workers);
  add_other_flags(command, flags);
}

CLI::App& describe_run(CLI::App& app, RunFlags& flags) {
  CLI::App* command = add_torchrun_command(
      app, "run",
      "Starts the workers of this node, together with those of the other nodes, and starts them "
      "again when one fails: what torchrun does.",
      "[--] SCRIPT [ARGUMENTS...]");
  command->footer(
      "Everything after the script belongs to it. torchrun's flags may be written with dashes or "
      "underscores and be abbreviated, and PET_ variables are their defaults: PET_NNODES and so "
      "on.");
  add_run_flags(*command, flags);
  return *command;
}

}  // namespace regroup::cli
