// The command line of `regroup run`, which is torchrun's, with additions of ours.
//
//   auto flags = parse_run_flags(words_after_run, [](const char* name) { return getenv(name); });
//   if (!flags) …                                  // One message, and exit 2.
//   if (!flags->to_print.empty()) …                // --help: print it, and exit 0.
//   auto plan = resolve(*flags);                   // run_defaults.h
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags/restart_flags.h"
#include "cli/flags/worker_flags.h"
#include "regroup/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own.
class App;
}

namespace regroup::cli {

// The values as they were typed, or what a PET_ variable says, or the default.
struct RunFlags {
  std::string nnodes = "1:1";
  std::string node_rank = "0";
  bool standalone = false;
  std::string master_addr = "127.0.0.1";
  std::string master_port;
  std::string local_addr;
  std::string expect;
  std::string topology_key;

  std::string rdzv_backend = "static";
  std::string rdzv_endpoint;
  std::string rdzv_id = "none";
  std::string rdzv_conf;
  std::string rdzv_secret_file;  // Empty: no secret.

  std::string nproc_per_node = "1";
  std::string max_restarts = "0";
  RestartFlags restarts;
  std::string preempt_signal;
  std::string monitor_interval = "0.1";
  std::string role = "default";
  bool module = false;
  bool no_python = false;
  bool run_path = false;
  std::string python;  // Or PYTHON_EXEC. Empty: we find one.
  std::string start_method = "spawn";
  std::string numa_binding;  // Empty: none.
  bool virtual_local_rank = false;
  bool watchdog = false;

  WorkerFlags workers;
  double exit_barrier_timeout = 300;

  bool quiet = false;
  bool verbose = false;
  std::string color = "auto";
  std::string log_format = "text";
  std::string report = "regroup";
  std::string event_log_handler = "null";
  std::string event_log;       // A file; empty: none.
  std::string rdzv_event_log;  // Likewise.
  std::string metrics_log;     // Likewise.

  std::string health_port;  // Empty: as TORCHELASTIC_HEALTH_CHECK_PORT says, or none.
  double health_limit = 60;

  bool dry_run = false;
  std::string exit_code = "worker";  // Or "torchrun": always 1.
  std::string logs_specs;
  std::string print_completion;

  std::string script;
  std::vector<std::string> script_arguments;  // Never looked at.

  // The text of --help and --print-completion. If not empty, nothing else counts, not even a
  // missing script.
  std::string to_print;

  // Where a value that is not a default came from: "nnodes" → "--nnodes", or "PET_NNODES".
  std::map<std::string, std::string> given;

  // How to call an option in a message: by where its value came from.
  std::string named(const std::string& option) const;
};

// Adds `run` to the app, for its line in the app's help. The app does not parse its words:
// parse_run_flags() does.
CLI::App& describe_run(CLI::App& app, RunFlags& flags);

// The options alone.
void add_run_flags(CLI::App& command, RunFlags& flags);

// All values that an option takes. Empty: any.
std::vector<std::string> choices_of(std::string_view option);

// Null if there is no such variable, as getenv().
using Environment = std::function<const char*(const char* name)>;

enum class CalledAs {
  RegroupRun,
  Torchrun,  // By a link of that name: torchrun's exit codes and report are the default.
};

// From the words after `run`. An impossible value is an InvalidArgument that names the flag, or the
// PET_ variable, and the value. Checks that need more than one value are left to resolve().
Result<RunFlags> parse_run_flags(const std::vector<std::string>& words,
                                 const Environment& environment,
                                 CalledAs called_as = CalledAs::RegroupRun);

}  // namespace regroup::cli
