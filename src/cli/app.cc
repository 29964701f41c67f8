#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nearest.h"
#include "cli/flags/cli.h"
#include "cli/flags/help_columns.h"
#include "cli/flags/report.h"
#include "cli/flags/run_words.h"
#include "cli/flags/torchrun_flags.h"
#include "cli/run/run_command.h"
#include "cli/run/run_flags.h"

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

// `regroup train.py` or `regroup --nproc-per-node 2 train.py`: torchrun has no commands.
bool is_meant_for_run(const std::string& word) {
  if (word.size() > 3 && word.ends_with(".py")) return true;
  RunFlags flags;
  CLI::App app;
  const std::vector<RunOption> known = options_of(describe_run(app, flags));
  return word.size() > 1 && word.front() == '-' && split_run_words({word, "0", "script"}, known);
}

// One message for words that no command accepts: the first of them, and what may have been meant.
std::string describe_unknown(const CLI::App& command) {
  const std::vector<std::string> words = command.remaining(true);
  if (command.get_parent() == nullptr && is_meant_for_run(words.front())) {
    std::string line;
    for (const std::string& word : words) line += " " + shell_word(word);
    return fmt::format("'{}' is no command. Did you mean: regroup run{}", words.front(), line);
  }
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
  return fmt::format("{} '{}'{}", flag == words.end() ? "unexpected argument" : "unknown flag",
                     word, meant ? "; did you mean '" + *meant + "'?" : "");
}

// Takes the user's command off the words, and leaves the options as the library understands them.
Result<std::vector<std::string>> cut_command(std::vector<std::string>& words,
                                             const CLI::App& command) {
  auto split = split_run_words({words.begin() + 1, words.end()}, options_of(command));
  if (!split) return tl::unexpected(split.error());
  words.resize(1);
  for (const auto& [name, value] : split->options) {
    words.push_back("--" + name);
    const CLI::Option* option = command.get_option_no_throw("--" + name);
    if (option != nullptr && option->get_items_expected_max() > 0) words.push_back(value);
  }
  std::vector<std::string> line;
  if (split->script) line.push_back(*split->script);
  line.insert(line.end(), split->arguments.begin(), split->arguments.end());
  return line;
}

}  // namespace

int run(int argc, char** argv) {
  // A reader that goes away is an error of that write, not the end of the program.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // So is a file that may not grow any more (ulimit -f).
  int exit_code = kOk;
  CLI::App app("regroup: starts, watches and restarts the processes of a distributed training job.",
               "regroup");
  app.set_version_flag("--version", "regroup " REGROUP_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(
      "For example:\n"
      "  regroup run --nproc-per-node 8 train.py                   8 workers on this machine\n"
      "  regroup run --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d \\\n"
      "      --rdzv-endpoint node-1:29400 train.py                 on two; the same on both\n"
      "  regroup status node-1:29400                               how that run is doing\n"
      "\n"
      "'regroup COMMAND --help' tells about one; torchrun's flags are those of 'regroup run'.");
  RunFlags for_the_list;
  describe_run(app, for_the_list);
  add_store_command(app, exit_code);
  add_rendezvous_command(app, exit_code);
  add_coordinator_command(app, exit_code);
  add_status_command(app, exit_code);
  const std::string invoked_as = argc > 0 ? argv[0] : "";
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  // Not parsed by the library: half of the words are the script's.
  if (is_torchrun(invoked_as)) return run_run(words, invoked_as);
  if (!words.empty() && words.front() == "run")
    return run_run({words.begin() + 1, words.end()}, invoked_as);
  std::vector<std::string> command_line;  // Of a worker: the library must not look at it.
  const CLI::App* spawn = add_spawn_command(app, command_line, exit_code);
  if (!words.empty() && words.front() == spawn->get_name()) {
    auto cut = cut_command(words, *spawn);
    if (!cut) {
      return report(kBadStart, cut.error().message + " See 'regroup spawn --help'.");
    }
    command_line = std::move(*cut);
  }
  std::reverse(words.begin(), words.end());  // As the library takes them.
  try {
    app.parse(words);
  } catch (const CLI::Success& asked_for) {  // --help and --version.
    std::ostringstream text;
    const int code = app.exit(asked_for, text);
    std::cout << in_columns(text.str(), help_columns()) << std::flush;
    return code;
  } catch (const CLI::ParseError& wrong) {
    const CLI::App& command = innermost(app);
    // The library reports a misspelt command as a missing one. For `spawn` the remaining words are
    // the user's command, and not a wrong value.
    const bool unknown = !command.remaining(true).empty() &&
                         (dynamic_cast<const CLI::ExtrasError*>(&wrong) != nullptr ||
                          dynamic_cast<const CLI::RequiredError*>(&wrong) != nullptr);
    std::string message = unknown ? describe_unknown(command) : wrong.what();
    if (message.find("Did you mean: ") != std::string::npos) return report(kBadStart, message);
    if (!message.ends_with('?')) message += '.';
    return report(kBadStart, message + " See '" + full_name(command) + " --help'.");
  } catch (const std::exception& unexpected) {
    return report(kFailed, unexpected.what());
  }
  return exit_code;
}

}  // namespace regroup::cli
