// `regroup run`: this node's part in a run.
#include "cli/run/run_command.h"

#include <fmt/core.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>
#include <utility>

#include "base/seconds.h"
#include "base/text.h"
#include "cli/flags/cli.h"
#include "cli/flags/our_environment.h"
#include "cli/flags/report.h"
#include "cli/flags/worker_flags.h"
#include "cli/run/health_port.h"
#include "cli/run/run_defaults.h"
#include "cli/run/run_flags.h"
#include "cli/run/run_records.h"
#include "cli/show/account.h"
#include "cli/show/failure_report.h"
#include "cli/show/view.h"
#include "regroup/agent.h"
#include "runtime/common/log.h"
#include "runtime/rendezvous/meet.h"
#include "runtime/workers/interpreter.h"
#include "runtime/workers/numa_binding.h"
#include "runtime/workers/process_count.h"
#include "runtime/workers/worker_environment.h"
#include "runtime/workers/worker_signals.h"

namespace regroup::cli {
namespace {

using Ending = RunResult::Ending;

// LOGLEVEL is Python's name for it, which torchrun reads; without flags it decides.
Account::Level level_of(const RunFlags& flags) {
  if (flags.quiet) return Account::Level::Quiet;
  const char* variable = std::getenv("LOGLEVEL");
  std::string level = variable == nullptr ? "" : variable;
  for (char& c : level) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (level == "DEBUG") return Account::Level::Debug;
  if (level == "INFO" || flags.verbose) return Account::Level::Verbose;
  if (level == "ERROR" || level == "CRITICAL") return Account::Level::Quiet;
  return Account::Level::Calm;
}

View view_for(const RunFlags& flags) {
  View view =
      choose_view({.color = flags.color, .log_format = flags.log_format, .report = flags.report},
                  look_around());
  view.level = level_of(flags);
  return view;
}

// Words that cannot be read as flags may still tell in which form to report that.
View view_for(const std::vector<std::string>& words) {
  RunFlags flags;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == "--log-format=json" ||
        (words[i] == "--log-format" && i + 1 < words.size() && words[i + 1] == "json"))
      flags.log_format = "json";
  return view_for(flags);
}

// What torchrun's report calls the run.
std::string name_of(const RunFlags& flags) {
  return flags.run_path ? "run_script_path" : flags.script;
}

struct Prepared {
  AgentOptions agent;
  std::string interpreter;            // For people; empty: none is used.
  std::vector<std::string> notes;     // Not if quiet.
  std::vector<std::string> warnings;  // In any case.
};

// As in torchrun: a value that is not a number above zero turns it off.
Duration stuck_limit() {
  const char* text = std::getenv("TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT");
  if (text == nullptr) return {};
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || *end != 0 || !(seconds > 0) || seconds > 1e9) return {};
  return from_seconds(seconds);
}

Result<Prepared> prepare(const RunFlags& flags, const std::string& invoked_as) {
  auto plan = resolve(flags);
  if (!plan) return tl::unexpected(plan.error());
  const auto count = runtime::count_workers(plan->nproc);
  if (!count)
    return fail(ErrorKind::InvalidArgument,
                flags.named("nproc-per-node") + ": " + count.error().message);

  Prepared prepared;
  AgentOptions& agent = prepared.agent;
  prepared.notes = plan->warnings;
  agent.spec.role = plan->role;
  agent.spec.local_world_size = *count;
  agent.rules = plan->rules;
  agent.spec.max_restarts = static_cast<int>(plan->rules.max_restarts);
  if (flags.run_path) agent.spec.entry_point = name_of(flags);
  agent.spec.virtual_local_rank = plan->virtual_local_rank;
  agent.spec.environment = our_environment();
  const auto variable = [&](const char* name) {
    const auto found = agent.spec.environment.find(name);
    return found == agent.spec.environment.end() ? std::string() : found->second;
  };
  agent.watchdog.enabled = flags.watchdog || variable("TORCHELASTIC_ENABLE_FILE_TIMER") == "1";
  // With that variable we are a worker of another launcher, and the pipe belongs to that launcher.
  if (!agent.spec.environment.contains("REGROUP_HEARTBEAT_FILE"))
    agent.watchdog.path = variable("TORCHELASTIC_TIMER_FILE");
  agent.rendezvous = std::move(plan->rendezvous);
  // run_agent() would find it, too, but a dry run does not come to that.
  const runtime::AgentPart part{.role = plan->role, .workers = *count, .rules = plan->rules};
  if (auto good = runtime::check_meeting(agent.rendezvous, part); !good)
    return tl::unexpected(good.error());
  agent.exit_barrier_timeout = from_seconds(flags.exit_barrier_timeout);
  auto health =
      choose_health_port(flags, std::getenv("TORCHELASTIC_HEALTH_CHECK_PORT"), prepared.notes);
  if (!health) return tl::unexpected(health.error());
  agent.health = std::move(*health);
  if (agent.health && !flags.quiet && (agent.health->port == 0 || flags.verbose))
    agent.health->on_listening = [](const std::vector<std::string>& addresses) {
      for (const std::string& address : addresses) runtime::log_info("health port: " + address);
    };
  agent.stuck_limit = stuck_limit();
  if (runtime::limits_omp_threads(agent.spec.environment, *count))
    prepared.notes.emplace_back(
        "OMP_NUM_THREADS is not set: each worker gets 1 thread. Set it for more");

  if (plan->mode != RunMode::Program) {
    auto search = runtime::search_this_machine(invoked_as);
    search.own_first = is_torchrun(invoked_as);
    const auto found = runtime::find_interpreter(flags.python, search);
    if (!found) return tl::unexpected(found.error());
    prepared.interpreter = found->path;
  }
  agent.spec.command = runtime::worker_command(plan->mode, prepared.interpreter, flags.script,
                                               flags.script_arguments);
  if (!plan->numa_binding.empty()) {
    auto bindings = runtime::bind_to_numa(plan->numa_binding, *count);
    if (!bindings) return tl::unexpected(bindings.error());
    for (auto& binding : *bindings) agent.spec.cpus.push_back(std::move(binding.cpus));
  }

  auto choices = apply(flags.workers, agent.workers);
  if (!choices) return tl::unexpected(choices.error());
  prepared.warnings = std::move(choices->warnings);
  auto logs = make_default_logs_specs(choices->logs);
  if (!logs) return tl::unexpected(logs.error());
  agent.logs = std::move(*logs);
  agent.signals_to_handle = std::move(choices->signals.handle);
  agent.signals_to_forward = std::move(choices->signals.forward);
  const auto shared = runtime::parse_signals(flags.preempt_signal);
  if (!shared.unknown.empty())
    return fail(ErrorKind::InvalidArgument,
                "--preempt-signal: " + printable(shared.unknown.front()) +
                    " is no signal that can be caught: SIGUSR1, SIGTERM and the like");
  agent.signals_to_share = shared.numbers;
  return prepared;
}

void print_plan(const Prepared& prepared) {
  const AgentOptions& agent = prepared.agent;
  std::string command;
  for (const std::string& word : agent.spec.command)
    command +=
        (command.empty() ? "" : " ") +
        (word.empty() || word.find_first_of(" \t\n'\"\\$") != std::string::npos ? printable(word)
                                                                                : word);
  std::cout << "command:      " << command << "\n"
            << "workers:      " << agent.spec.local_world_size << " on this node, role "
            << agent.spec.role << ", " << count_of(agent.spec.max_restarts, "restart")
            << (agent.rules.restart_window > Duration{}
                    ? " within " + in_words(agent.rules.restart_window)
                    : "")
            << "\n"
            << "rendezvous:   " << agent.rendezvous.backend << " at " << agent.rendezvous.endpoint
            << ", run " << agent.rendezvous.run_id << ", " << agent.rendezvous.min_nodes << " to "
            << agent.rendezvous.max_nodes << " nodes\n";
  if (!agent.rendezvous.secret_file.empty())
    std::cout << "secret:       in " << printable(agent.rendezvous.secret_file) << "\n";
  for (std::size_t rank = 0; rank < agent.spec.cpus.size(); ++rank)
    std::cout << "CPUs of " << rank << ":    " << in_ranges(agent.spec.cpus[rank]) << "\n";
  std::cout << std::flush;
}

int exit_code_after(const RunResult& result) {
  switch (result.ending) {
    case Ending::Succeeded:
    case Ending::NotNeeded:
      return kOk;
    case Ending::Failed:
      return result.cause ? exit_code_of(*result.cause) : kFailedElsewhere;
    case Ending::Signalled:
      return 128 + result.signal;
    case Ending::CouldNotJoin:
      // The workers' failure is what began it.
      if (result.cause) return exit_code_of(*result.cause);
      return result.error.kind == ErrorKind::InvalidArgument ? kBadStart : kCouldNotMeet;
    case Ending::CouldNotStart:
      return kCouldNotStart;
    case Ending::LeftBehind:
      return kLeftBehind;
  }
  return kFailed;
}

// For the launcher above us, if any. torchrun leaves its own exceptions there too.
Result<void> leave_error_file_of(const RunResult& result) {
  if (result.cause) return pass_on_error_file(*result.cause);
  if (result.ending == Ending::Signalled)
    return leave_error_file(fmt::format("ended by signal {}", result.signal));
  if (!result.error.message.empty()) return leave_error_file(result.error.message);
  if (!result.cause_elsewhere.empty())
    return leave_error_file("the run has failed on another node: " + result.cause_elsewhere);
  return {};
}

int could_not_begin(const Account& account, const Error& error) {
  if (auto left = leave_error_file(error.message); !left)
    say(kOk, account.warning(left.error().message));
  return say(kBadStart, account.error(error.message));
}

}  // namespace

bool is_torchrun(const std::string& invoked_as) {
  return std::filesystem::path(invoked_as).filename() == "torchrun";
}

int run_run(const std::vector<std::string>& words, const std::string& invoked_as) {
  const auto flags = parse_run_flags(
      words, [](const char* name) { return std::getenv(name); },
      is_torchrun(invoked_as) ? CalledAs::Torchrun : CalledAs::RegroupRun);
  if (!flags) {
    const std::string& why = flags.error().message;
    const bool is_ended = why.ends_with('.') || why.ends_with('?');
    return say(kBadStart,
               Account(view_for(words), "", {})
                   .error(why + (is_ended ? "" : ".") + " See '" +
                          (is_torchrun(invoked_as) ? "torchrun" : "regroup run") + " --help'."));
  }
  if (!flags->to_print.empty()) {
    std::cout << flags->to_print << std::flush;
    return kOk;
  }
  const View view = view_for(*flags);
  auto prepared = prepare(*flags, invoked_as);
  std::error_code ignored;
  Account account(view, name_of(*flags),
                  {.interpreter = prepared ? prepared->interpreter : "",
                   .directory = std::filesystem::current_path(ignored).string()});
  if (!prepared) return could_not_begin(account, prepared.error());
  for (const std::string& warning : prepared->warnings) say(kOk, account.warning(warning));
  if (!flags->quiet)
    for (const std::string& note : prepared->notes) say(kOk, account.warning(note));
  if (flags->dry_run) {
    print_plan(*prepared);
    return kOk;
  }
  auto records = RunRecords::open(*flags);
  if (!records) return could_not_begin(account, records.error());
  prepared->agent.on_event = [&](const AgentEvent& event) {
    account.tell(event);
    if (const std::string trouble = records->tell(event); !trouble.empty())
      event.tell(account.warning(trouble));
  };
  prepared->agent.workers.warning_line = [&](const std::string& text) {
    return account.warning(text);
  };
  const auto result = run_agent(std::move(prepared->agent));
  for (const std::string& loss : records->close()) say(kOk, account.warning(loss));
  if (!result) return could_not_begin(account, result.error());
  if (result->failed())
    if (auto left = leave_error_file_of(*result); !left)
      say(kOk, account.warning(left.error().message));
  const int code = exit_code_after(*result);
  return flags->exit_code == "torchrun" && code != kOk ? kFailed : code;
}

}  // namespace regroup::cli
