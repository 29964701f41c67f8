#include "cli/flags/torchrun_flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <memory>
#include <utility>

namespace regroup::cli {
namespace {

class DashesOnly : public CLI::Formatter {
 public:
  explicit DashesOnly(std::string arguments) : arguments_(std::move(arguments)) {}

  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    const std::size_t end = usage.find_last_not_of('\n');
    return arguments_.empty() ? usage : usage.insert(end + 1, " " + arguments_);
  }

  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string names = CLI::Formatter::make_option_name(option, is_positional);
    // Each name with an underscore follows its twin, after a comma.
    for (std::size_t at = names.find('_'); at != std::string::npos; at = names.find('_')) {
      const std::size_t comma = names.rfind(',', at);
      if (comma == std::string::npos) break;
      names.erase(comma, std::min(names.find(',', at), names.size()) - comma);
    }
    return names;
  }

 private:
  std::string arguments_;
};

}  // namespace

std::string both_spellings(const std::string& name, char letter) {
  std::string underscored = name;
  std::replace(underscored.begin(), underscored.end(), '-', '_');
  std::string spellings = letter == 0 ? "" : std::string("-") + letter + ",";
  spellings += "--" + name;
  if (underscored != name) spellings += ",--" + underscored;
  return spellings;
}

std::vector<RunOption> options_of(const CLI::App& command) {
  std::vector<RunOption> options;
  for (const CLI::Option* option : command.get_options())
    options.push_back({.name = option->get_lnames().front(),
                       .letter = option->get_snames().empty() ? '\0' : option->get_snames()[0][0],
                       .takes_value = option->get_items_expected_max() > 0,
                       .is_last = option->get_lnames().front() == "help"});
  return options;
}

CLI::App* add_torchrun_command(CLI::App& parent, const std::string& name, const std::string& help,
                               const std::string& arguments) {
  CLI::App* command = parent.add_subcommand(name, help);
  auto formatter = std::make_shared<DashesOnly>(arguments);
  formatter->column_width(38);
  command->formatter(std::move(formatter));
  // Scripts append flags to those of other scripts.
  command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return command;
}

}  // namespace regroup::cli
