#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>

#include "cli/cli.h"

namespace regroup::cli {
namespace {

// The command that the user was in when the error came: its help is the one to read.
std::string command_of(const CLI::App& app) {
  std::string name = "regroup";
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return name;
}

}  // namespace

int run(int argc, char** argv) {
  // A reader that goes away is an error of that write, not the end of the program.
  std::signal(SIGPIPE, SIG_IGN);
  int exit_code = kOk;
  CLI::App app("regroup: starts, watches and restarts the processes of a distributed training job.",
               "regroup");
  app.set_version_flag("--version", "regroup " REGROUP_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_store_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for) {  // --help and --version.
    return app.exit(asked_for);
  } catch (const CLI::ParseError& wrong) {
    std::cerr << "regroup: " << wrong.what() << ". See '" << command_of(app) << " --help'.\n";
    return kBadStart;
  } catch (const std::exception& unexpected) {
    std::cerr << "regroup: " << unexpected.what() << "\n";
    return kFailed;
  }
  return exit_code;
}

}  // namespace regroup::cli
