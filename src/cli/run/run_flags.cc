#include "cli/run/run_flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "base/cases.h"
#include "cli/flags/time_flag.h"
#include "cli/flags/torchrun_flags.h"

namespace regroup::cli {
namespace {

using Text = std::string RunFlags::*;
using Seconds = double RunFlags::*;
using Switch = bool RunFlags::*;

using Choices = std::array<const char*, 4>;  // Null after the last.

// One option, as the help shows it.
struct Row {
  std::string_view name;
  std::variant<Text, Seconds, Switch> member;
  const char* value;  // What is to be typed, where it takes a value; else nothing.
  const char* help;
  Choices choices = {};  // All that it takes. None: any value.
  char letter = 0;
};

constexpr Row kNodes[] = {
    {"nnodes", &RunFlags::nnodes, "N|MIN:MAX", "How many nodes: N, or MIN:MAX"},
    {"standalone", &RunFlags::standalone, "",
     "This node alone, on a free port. Not needed with one node and no endpoint"},
    {"node-rank", &RunFlags::node_rank, "RANK",
     "This node's rank with the static backend; a wish with others"},
    {"master-addr", &RunFlags::master_addr, "ADDRESS",
     "Of the node with rank 0; static backend only"},
    {"master-port", &RunFlags::master_port, "PORT",
     "On that node; static backend only. Default 29500, or any with one node"},
    {"local-addr", &RunFlags::local_addr, "ADDRESS",
     "This node's address as the others reach it; found by itself without"},
    {"expect", &RunFlags::expect, "NAME,...",
     "Names of the nodes that should come; the missing are named while waiting"},
};

constexpr Row kRendezvous[] = {
    {"rdzv-backend", &RunFlags::rdzv_backend, "NAME",
     "How the nodes meet: static (fixed ranks) or c10d (they come and go)"},
    {"rdzv-endpoint", &RunFlags::rdzv_endpoint, "HOST[:PORT]",
     "Where they meet: one of the nodes, the same on every node"},
    {"rdzv-id", &RunFlags::rdzv_id, "ID", "Name of the run, the same on every node"},
    {"rdzv-conf", &RunFlags::rdzv_conf, "KEY=VALUE,...",
     "Timeouts and the like; docs/rendezvous.md has the keys"},
    {"rdzv-secret-file", &RunFlags::rdzv_secret_file, "FILE",
     "Meet only nodes with the secret in this file, the same on every node (c10d)"},
};

constexpr Row kWorkers[] = {
    {"nproc-per-node",
     &RunFlags::nproc_per_node,
     "N",
     "Workers on this node: a number, gpu, cpu, or auto (GPUs if any, else CPUs)",
     {},
     'n'},
    {"max-restarts", &RunFlags::max_restarts, "N[/TIME]",
     "How often the workers are started again after a failure; 3/1h: within an hour"},
    {"module", &RunFlags::module, "", "SCRIPT is a module: python -m SCRIPT", {}, 'm'},
    {"no-python", &RunFlags::no_python, "", "SCRIPT is a program: run it directly"},
    {"run-path", &RunFlags::run_path, "", "Run the script by Python's runpy"},
    {"python", &RunFlags::python, "PROGRAM",
     "The interpreter. Default PYTHON_EXEC, that of the active environment, PATH"},
    {"role", &RunFlags::role, "NAME", "Role of the workers: names them in prefixes"},
    {"numa-binding",
     &RunFlags::numa_binding,
     "HOW",
     "Keep workers near their GPU: node, socket, exclusive, core-complex",
     {"node", "socket", "exclusive", "core-complex"}},
    {"virtual-local-rank", &RunFlags::virtual_local_rank, "",
     "Every worker sees one GPU, and LOCAL_RANK 0"},
    {"watchdog", &RunFlags::watchdog, "",
     "Serve countdown timers to workers; so does TORCHELASTIC_ENABLE_FILE_TIMER=1"},
    {"start-method",
     &RunFlags::start_method,
     "HOW",
     "For torchrun's sake: spawn, fork, forkserver",
     {"spawn", "fork", "forkserver"}},
    {"monitor-interval", &RunFlags::monitor_interval, "TIME",
     "For torchrun's sake: a worker's end is seen at once, without looking"},
};

// Below the rules of the run.
constexpr Row kBesideRules[] = {
    {"preempt-signal", &RunFlags::preempt_signal, "SIGNAL,...",
     "What warns one node goes to the workers of all nodes, and ends nothing"},
    {"topology-key", &RunFlags::topology_key, "KEY",
     "Equal on nodes near each other, as in one rack: their ranks stand together"},
};

// Below those that are the same wherever workers are started.
constexpr Row kStopping[] = {
    {"exit-barrier-timeout", &RunFlags::exit_barrier_timeout, "TIME",
     "How long a node that is done waits for the others"},
};

constexpr Row kShown[] = {
    {"quiet", &RunFlags::quiet, "", "Only warnings, and what went wrong", {}, 'q'},
    {"verbose", &RunFlags::verbose, "", "Also what goes well", {}, 'v'},
    {"color",
     &RunFlags::color,
     "WHEN",
     "Colours: auto (on a terminal, unless NO_COLOR is set), always, never",
     {"auto", "always", "never"}},
    {"log-format",
     &RunFlags::log_format,
     "FORMAT",
     "What the launcher itself says: text, or json (one object in each line)",
     {"text", "json"}},
    {"report",
     &RunFlags::report,
     "LAYOUT",
     "Of a failure: regroup, or torchrun (its layout, for programs that read it)",
     {"regroup", "torchrun"}},
    {"event-log-handler",
     &RunFlags::event_log_handler,
     "NAME",
     "torchrun's events: null (nowhere), console (on standard error)",
     {"null", "console", "dynamic_rendezvous"}},
    {"event-log", &RunFlags::event_log, "FILE", "Append torchrun's events to it, as JSON lines"},
    {"rdzv-event-log", &RunFlags::rdzv_event_log, "FILE",
     "Append torchrun's events of the rendezvous to it, likewise"},
    {"metrics-log", &RunFlags::metrics_log, "FILE",
     "Append torchrun's metrics and ours to it, as JSON lines"},
};

constexpr Row kHealth[] = {
    {"health-port", &RunFlags::health_port, "[ADDRESS:]PORT",
     "Tell here over HTTP how this node is doing. Default TORCHELASTIC_HEALTH_CHECK_PORT, or "
     "nowhere"},
    {"health-limit", &RunFlags::health_limit, "TIME",
     "/healthz says 503 if the agent does not react for this long"},
};

constexpr Row kOther[] = {
    {"dry-run", &RunFlags::dry_run, "", "Say what would be run, and run nothing"},
    {"exit-code",
     &RunFlags::exit_code,
     "WHOSE",
     "After a failure: worker (that of the worker), torchrun (always 1)",
     {"worker", "torchrun"}},
    {"logs-specs",
     &RunFlags::logs_specs,
     "NAME",
     "Only 'default': Python plug-ins cannot run here",
     {"default"}},
    {"print-completion",
     &RunFlags::print_completion,
     "SHELL",
     "Print what completes these flags in bash or zsh",
     {"bash", "zsh"}},
};

constexpr std::span<const Row> kAll[] = {kNodes,    kRendezvous, kWorkers, kBesideRules,
                                         kStopping, kShown,      kHealth,  kOther};

// Of flags that have no row here.
constexpr std::pair<std::string_view, Choices> kOtherChoices[] = {
    {"restart-policy", {"run", "torchrun"}},
    {"cgroup", {"auto", "off", "require"}},
    {"evidence", {"on-hang", "always", "never"}},
};

CLI::Option* add_text(CLI::App& command, const std::string& name, std::string& text,
                      const char* value, const char* help, char letter = 0) {
  CLI::Option* option =
      command.add_option(both_spellings(name, letter), text, help)->type_name(value);
  return text.empty() ? option : option->capture_default_str();
}

void add_rows(CLI::App& command, const char* group, std::span<const Row> rows, RunFlags& flags) {
  for (const Row& row : rows) {
    const std::string name(row.name);
    const Cases add{
        [&](Text text) {
          return add_text(command, name, flags.*text, row.value, row.help, row.letter);
        },
        [&](Seconds seconds) {
          return takes_time(command.add_option(both_spellings(name), flags.*seconds, row.help), 0,
                            1e9)
              ->capture_default_str();
        },
        [&](Switch is_on) {
          return command.add_flag(both_spellings(name, row.letter), flags.*is_on, row.help);
        },
    };
    std::visit(add, row.member)->group(group);
  }
}

void add_rules(CLI::App& command, RunFlags& flags) {
  const char* group = "Restarts, lost nodes and groups, where regroup hosts a c10d rendezvous";
  for (const RuleFlag& flag : rule_flags())
    add_text(command, flag.name, flags.restarts.rules.at(flag.name), flag.value, flag.help)
        ->group(group);
  add_rows(command, group, kBesideRules, flags);
}

}  // namespace

std::string RunFlags::named(const std::string& option) const {
  const auto found = given.find(option);
  return found == given.end() ? "--" + option : found->second;
}

std::vector<std::string> choices_of(std::string_view option) {
  Choices choices{};
  for (const std::span<const Row> rows : kAll)
    for (const Row& row : rows)
      if (row.name == option) choices = row.choices;
  for (const auto& [name, values] : kOtherChoices)
    if (name == option) choices = values;
  return {choices.begin(), std::find(choices.begin(), choices.end(), nullptr)};
}

// Groups are shown in the order of adding, and so are options in them.
void add_run_flags(CLI::App& command, RunFlags& flags) {
  add_rows(command, "Nodes", kNodes, flags);
  add_rows(command, "Rendezvous", kRendezvous, flags);
  add_rows(command, "Workers", kWorkers, flags);
  add_rules(command, flags);
  add_worker_flags(command, flags.workers);
  add_rows(command, "Stopping", kStopping, flags);
  add_rows(command, "What is shown", kShown, flags);
  add_rows(command, "Health", kHealth, flags);
  add_rows(command, "Other", kOther, flags);
  command.set_help_flag();  // Added again, to be last.
  command.set_help_flag("-h,--help", "Print this help")->group("Other");
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
