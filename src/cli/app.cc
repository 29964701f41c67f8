#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "cli/cli.h"

namespace regroup::cli {
namespace {

// The command that the user was in when the error came: its help is the one to read.
const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return (parent == nullptr ? "" : full_name(*parent) + " ") + command.get_name();
}

// One message for words that no command knows: the first of them, and what may have been meant.
std::string describe_unknown(const CLI::App& command) {
  const std::vector<std::string> words = command.remaining(true);
  const auto is_flag = [](const std::string& word) { return word.starts_with('-'); };
  const auto commands = command.get_subcommands([](const CLI::App*) { return true; });
  // After a misspelt command its flags are unknown too, but that is not what is wrong.
  const bool is_command = !commands.empty() && !is_flag(words.front());
  const auto flag = is_command ? words.end() : std::find_if(words.begin(), words.end(), is_flag);
  const std::string typed = (flag == words.end() ? words.front() : *flag);
  const std::string word = typed.substr(0, typed.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const CLI::App* sub : commands) known.push_back(sub->get_name());
  const auto meant = nearest(word, known);
  return std::string(flag == words.end() ? "unexpected argument '" : "unknown flag '") + word +
         "'" + (meant ? "; did you mean '" + *meant + "'?" : "");
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
  add_rendezvous_command(app, exit_code);
  // The library would give what follows "--" back to the parent command.
  const auto dashes = std::find(argv, argv + argc, std::string_view("--"));
  const std::vector<std::string> behind_dashes(std::min(dashes + 1, argv + argc), argv + argc);
  add_spawn_command(app, behind_dashes, exit_code);
  try {
    app.parse(static_cast<int>(dashes - argv), argv);
  } catch (const CLI::Success& asked_for) {  // --help and --version.
    return app.exit(asked_for);
  } catch (const CLI::ParseError& wrong) {
    const CLI::App& command = innermost(app);
    // A misspelt command is reported by the library as a missing one.
    const bool unknown = !command.remaining(true).empty();
    std::string message = unknown ? describe_unknown(command) : wrong.what();
    if (!message.ends_with('?')) message += '.';
    std::cerr << "regroup: " << message << " See '" << full_name(command) << " --help'.\n";
    return kBadStart;
  } catch (const std::exception& unexpected) {
    std::cerr << "regroup: " << unexpected.what() << "\n";
    return kFailed;
  }
  return exit_code;
}

}  // namespace regroup::cli
