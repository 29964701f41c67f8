// `regroup spawn`: the workers of this machine alone, without a rendezvous.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/flags/cli.h"
#include "cli/flags/our_environment.h"
#include "cli/flags/report.h"
#include "cli/flags/torchrun_flags.h"
#include "cli/flags/worker_flags.h"
#include "cli/show/failure_report.h"
#include "regroup/workers.h"
#include "runtime/workers/worker_service.h"

namespace regroup::cli {
namespace {

struct Flags {
  int count = 1;
  std::string run_id = "none";
  std::string role = "default";
  bool verbose = false;
  WorkerFlags workers;
};

WorkersSpec spec_of(const Flags& flags, const std::vector<std::string>& command) {
  WorkersSpec spec;
  spec.attempt.run_id = flags.run_id;
  const auto base = our_environment();
  const std::string count = std::to_string(flags.count);
  for (int rank = 0; rank < flags.count; ++rank) {
    const std::string number = std::to_string(rank);
    spec.attempt.workers.push_back({rank, rank, flags.role});
    auto environment = base;
    for (const auto& [name, value] :
         std::map<std::string, std::string>{{"RANK", number},
                                            {"LOCAL_RANK", number},
                                            {"ROLE_RANK", number},
                                            {"ROLE_NAME", flags.role},
                                            {"WORLD_SIZE", count},
                                            {"LOCAL_WORLD_SIZE", count},
                                            {"ROLE_WORLD_SIZE", count},
                                            {"GROUP_RANK", "0"},
                                            {"GROUP_WORLD_SIZE", "1"},
                                            {"TORCHELASTIC_RUN_ID", flags.run_id},
                                            {"TORCHELASTIC_RESTART_COUNT", "0"},
                                            {"TORCHELASTIC_MAX_RESTARTS", "0"}})
      environment[name] = value;
    spec.commands.push_back({.argv = command, .environment = std::move(environment)});
  }
  return spec;
}

int spawn(const Flags& flags, const std::vector<std::string>& command) {
  if (command.empty())
    return report(kBadStart, "no command to run. For example: regroup spawn -n 4 python train.py");
  runtime::WorkerServiceOptions options;
  options.spec = spec_of(flags, command);
  options.verbose = flags.verbose;
  options.report = [](const WorkersResult& result) { return failure_report(result); };
  auto choices = apply(flags.workers, options.spec);
  if (!choices) return report(kBadStart, choices.error().message);
  for (const std::string& warning : choices->warnings) report(kOk, warning);
  auto logs = make_default_logs_specs(choices->logs);
  if (!logs) return report(kBadStart, logs.error().message);
  options.logs = std::move(*logs);
  options.signals = choices->signals;

  const auto result = runtime::run_workers(std::move(options));
  if (!result) return report(kBadStart, result.error().message);
  if (result->workers.cause)
    if (auto passed = pass_on_error_file(*result->workers.cause); !passed)
      report(kOk, passed.error().message);
  if (!result->workers.survivors.empty()) return kLeftBehind;
  if (result->signal != 0) return 128 + result->signal;
  if (result->workers.cause) return exit_code_of(*result->workers.cause);
  return result->workers.succeeded ? kOk : kFailed;
}

}  // namespace

CLI::App* add_spawn_command(CLI::App& app, const std::vector<std::string>& command_line,
                            int& exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = add_torchrun_command(
      app, "spawn",
      "Runs N copies of a command on this machine, as one: watches them, carries their output, "
      "stops all when one fails, leaves nothing behind, and says what happened.",
      "[--] COMMAND [ARGUMENTS...]");
  command->footer(
      "Everything after the command belongs to it; ${local_rank} is replaced in its arguments. "
      "Workers get RANK, LOCAL_RANK, WORLD_SIZE and so on.");
  command->add_option(both_spellings("nproc-per-node", 'n'), flags->count, "How many workers")
      ->type_name("N")
      ->check(CLI::Range(1, 4096).description(""))
      ->capture_default_str();
  command->add_option(both_spellings("rdzv-id"), flags->run_id, "Name of the run")
      ->type_name("ID")
      ->capture_default_str();
  command->add_option("--role", flags->role, "Role of the workers: names them in prefixes")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_flag("-v,--verbose", flags->verbose, "Also say when the workers run");
  add_worker_flags(*command, flags->workers);
  command->callback(
      [&command_line, flags, &exit_code] { exit_code = spawn(*flags, command_line); });
  return command;
}

}  // namespace regroup::cli
