// `regroup coordinator`: where the nodes of runs meet, on a machine that need not train.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>

#include "cli/flags/cli.h"
#include "cli/serve/serve_flags.h"

namespace regroup::cli {

void add_coordinator_command(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ServeFlags>();
  flags->options.host.port = 29400;
  flags->options.host.coordinator = true;
  flags->options.host.sessions.names_needed = true;
  CLI::App* command = app.add_subcommand(
      "coordinator",
      "Serve the endpoint where the nodes of runs meet, on a machine that need not train: a login "
      "node, a small machine beside the cluster. It coordinates any number of runs.");
  command->footer(
      "For example, on the machine that the nodes know as head:\n"
      "  regroup coordinator --host ::\n"
      "and on every node:\n"
      "  regroup run --rdzv-endpoint head:29400 --rdzv-id job-17 --nnodes 4 train.py\n"
      "  regroup status head:29400        (from anywhere: how the runs are doing)\n"
      "\n"
      "It may be killed and started again on the same port while workers run: they run on, and\n"
      "their nodes come back by themselves. Asked to stop (SIGTERM, Ctrl-C), it stays until every\n"
      "node has said goodbye; a second signal ends it at once. SIGUSR1 prints counters.\n"
      "Whoever reaches the port is trusted, and only this machine does unless --host is given;\n"
      "with --rdzv-secret-file, every node that knows the secret.");
  add_serve_flags(*command, "coordinator", *flags);
  command->callback([flags, &exit_code] { exit_code = serve(*flags); });
}

}  // namespace regroup::cli
