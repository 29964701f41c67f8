// `regroup rendezvous`: meet the other nodes of a run, look at one, end one.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/seconds.h"
#include "base/text.h"
#include "cli/ask/rendezvous_join.h"
#include "cli/flags/cli.h"
#include "cli/flags/node_range.h"
#include "cli/flags/report.h"
#include "cli/flags/time_flag.h"
#include "cli/flags/torchrun_flags.h"
#include "regroup/rendezvous.h"
#include "runtime/rendezvous/rendezvous_view.h"

namespace regroup::cli {
namespace {

// The values as they were typed.
struct Flags {
  std::string nnodes = "1";
  std::string endpoint;
  std::string run_id;
  std::string backend = "c10d";
  std::string conf;
  std::optional<std::int64_t> node_rank;
  std::string local_addr;
  std::string expect;
  double stay_seconds = 0;
  double timeout_seconds = 5;
};

int report_error(const Error& error) {
  return cli::report(error.kind == ErrorKind::InvalidArgument ? kBadStart : kFailed, error.message);
}

Result<RendezvousParameters> parameters_of(const Flags& flags) {
  const auto nodes = parse_node_range(flags.nnodes);
  if (!nodes) return fail(ErrorKind::InvalidArgument, "--nnodes: " + nodes.error().message);
  auto config = parse_rendezvous_config(flags.conf);
  if (!config) return fail(ErrorKind::InvalidArgument, "--rdzv-conf: " + config.error().message);
  return RendezvousParameters{.backend = flags.backend,
                              .endpoint = flags.endpoint,
                              .run_id = flags.run_id,
                              .min_nodes = nodes->min,
                              .max_nodes = nodes->max,
                              .local_addr = flags.local_addr,
                              .node_rank = flags.node_rank,
                              .config = std::move(*config),
                              .expected_nodes = split_names(flags.expect)};
}

int join(const Flags& flags) {
  auto parameters = parameters_of(flags);
  if (!parameters) return report_error(parameters.error());
  return join_rendezvous(std::move(*parameters), from_seconds(flags.stay_seconds));
}

Result<std::shared_ptr<Store>> store_of(const Flags& flags) {
  const auto parameters = parameters_of(flags);
  if (!parameters) return tl::unexpected(parameters.error());
  if (flags.run_id.empty())
    return fail(ErrorKind::InvalidArgument, "the run id is empty. Give the --rdzv-id of the run");
  return runtime::open_run_store(*parameters, from_seconds(flags.timeout_seconds));
}

int show(const Flags& flags) {
  const auto store = store_of(flags);
  if (!store) return report_error(store.error());
  const auto state = runtime::look_at_run(**store, flags.run_id);
  if (!state) return report_error(state.error());
  std::cout << runtime::describe_run(flags.run_id, *state, runtime::stamp_now());
  return std::cout.flush() ? kOk : kFailed;
}

int close(const Flags& flags) {
  const auto store = store_of(flags);
  if (!store) return report_error(store.error());
  const auto closing =
      runtime::close_run(*store, flags.run_id, from_seconds(flags.timeout_seconds));
  if (!closing) return report_error(closing.error());
  std::cout << "run " << printable(flags.run_id) << ", round " << closing->state.round
            << (closing->was_closed ? ": was closed before, nothing to do; on its list: "
                                    : ": closed for everybody; on its list: ")
            << runtime::describe_nodes(closing->state) << "\n";
  return std::cout.flush() ? kOk : kFailed;
}

template <class T>
CLI::Option* add_flag_of_torchrun(CLI::App& command, const std::string& name, T& value,
                                  const std::string& help) {
  return command.add_option(both_spellings(name), value, help);
}

void add_where(CLI::App& command, Flags& flags) {
  add_flag_of_torchrun(command, "rdzv-id", flags.run_id, "Name of the run, the same on every node")
      ->type_name("ID")
      ->required();
  add_flag_of_torchrun(command, "rdzv-endpoint", flags.endpoint,
                       "Where the nodes meet: HOST or HOST:PORT of one of them, the same on every "
                       "node; a file with store_type=file. Default: localhost:29400")
      ->type_name("HOST[:PORT]");
  add_flag_of_torchrun(command, "rdzv-conf", flags.conf,
                       "Timeouts and the like, as KEY=VALUE,...; docs/rendezvous.md has the keys")
      ->type_name("KEY=VALUE,...");
}

void add_timeout(CLI::App& command, Flags& flags) {
  takes_time(command.add_option("--timeout", flags.timeout_seconds, "When to give up"), 0.001, 1e6)
      ->capture_default_str();
}

void set_action(CLI::App& command, const std::shared_ptr<Flags>& flags, int (*action)(const Flags&),
                int& exit_code) {
  command.callback([flags, action, &exit_code] { exit_code = action(*flags); });
}

void add_join(CLI::App& rendezvous, int& exit_code) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* command = add_torchrun_command(
      rendezvous, "join",
      "Meet the other nodes of a run as 'regroup run' does, print which node has which rank, and "
      "leave.\n"
      "What is waited for is told on standard error. Ctrl-C takes this node off the list.");
  add_where(*command, *flags);
  add_flag_of_torchrun(*command, "nnodes", flags->nnodes, "How many nodes: N, or MIN:MAX")
      ->type_name("N|MIN:MAX")
      ->capture_default_str();
  add_flag_of_torchrun(*command, "rdzv-backend", flags->backend,
                       "How the nodes meet: c10d (they come and go) or static (fixed ranks)")
      ->type_name("NAME")
      ->capture_default_str();
  add_flag_of_torchrun(*command, "node-rank", flags->node_rank,
                       "This node's rank; with c10d a wish")
      ->type_name("RANK");
  add_flag_of_torchrun(*command, "local-addr", flags->local_addr,
                       "This node's address as the others reach it; found by itself without")
      ->type_name("ADDRESS");
  command
      ->add_option("--expect", flags->expect,
                   "Names of the nodes that should come; the missing are named while waiting")
      ->type_name("NAME,...");
  takes_time(
      command->add_option("--stay", flags->stay_seconds,
                          "Remain a member for this long, and join again when nodes come or go"),
      0, 1e9)
      ->capture_default_str();
  set_action(*command, flags, join, exit_code);
}

void add_show(CLI::App& rendezvous, int& exit_code) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* command =
      add_torchrun_command(rendezvous, "show",
                           "Print what the nodes of a run share: round, ranks, which nodes wait, "
                           "when each was last heard of.\nChanges nothing. c10d backend only.");
  add_where(*command, *flags);
  add_timeout(*command, *flags);
  set_action(*command, flags, show, exit_code);
}

void add_close(CLI::App& rendezvous, int& exit_code) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* command =
      add_torchrun_command(rendezvous, "close",
                           "End a run for all nodes, for good: none can join it any more. "
                           "c10d backend only.");
  add_where(*command, *flags);
  add_timeout(*command, *flags);
  set_action(*command, flags, close, exit_code);
}

}  // namespace

void add_rendezvous_command(CLI::App& app, int& exit_code) {
  CLI::App* rendezvous =
      app.add_subcommand("rendezvous", "Meet the other nodes of a run, look at a run, or end it.");
  rendezvous->require_subcommand(1);
  add_join(*rendezvous, exit_code);
  add_show(*rendezvous, exit_code);
  add_close(*rendezvous, exit_code);
}

}  // namespace regroup::cli
