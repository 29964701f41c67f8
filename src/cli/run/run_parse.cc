// From words and variables to RunFlags. The library holds the options and converts their values;
// the words are told apart here, because the library would also look at the script's own.
#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/text.h"
#include "base/text_parts.h"
#include "cli/flags/help_columns.h"
#include "cli/flags/run_words.h"
#include "cli/flags/time_flag.h"
#include "cli/run/completion.h"
#include "cli/run/run_flags.h"

namespace regroup::cli {
namespace {

struct TorchrunOption {
  std::string_view name;
  bool has_variable = true;
};
constexpr std::array kTorchrunOptions = std::to_array<TorchrunOption>({{"nnodes"},
                                                                       {"nproc-per-node"},
                                                                       {"rdzv-backend"},
                                                                       {"rdzv-endpoint"},
                                                                       {"rdzv-id"},
                                                                       {"rdzv-conf"},
                                                                       {"standalone"},
                                                                       {"max-restarts"},
                                                                       {"monitor-interval"},
                                                                       {"start-method"},
                                                                       {"event-log-handler"},
                                                                       {"role"},
                                                                       {"module"},
                                                                       {"no-python"},
                                                                       {"run-path"},
                                                                       {"log-dir"},
                                                                       {"redirects"},
                                                                       {"tee"},
                                                                       {"log-line-prefix-template"},
                                                                       {"local-ranks-filter"},
                                                                       {"duplicate-stdout-filters"},
                                                                       {"duplicate-stderr-filters"},
                                                                       {"node-rank"},
                                                                       {"master-addr"},
                                                                       {"master-port"},
                                                                       {"local-addr"},
                                                                       {"logs-specs", false},
                                                                       {"numa-binding", false},
                                                                       {"signals-to-handle"},
                                                                       {"shutdown-timeout"},
                                                                       {"virtual-local-rank"},
                                                                       {"print-completion", false},
                                                                       {"help", false}});

// They are not torchrun's and still have variables: like an endpoint, they may be the same for all
// runs of a cluster.
constexpr std::string_view kSecretFile = "rdzv-secret-file";
constexpr std::string_view kChildren = "children";

RunOption described(const CLI::Option& option) {
  RunOption run_option{.name = option.get_lnames().front(),
                       .letter = option.get_snames().empty() ? '\0' : option.get_snames()[0][0],
                       .takes_value = option.get_items_expected_max() > 0,
                       .value_name = option.get_type_name(),
                       .choices = choices_of(option.get_lnames().front()),
                       .help = option.get_description()};
  run_option.of_torchrun = std::any_of(kTorchrunOptions.begin(), kTorchrunOptions.end(),
                                       [&](const auto& of) { return of.name == run_option.name; });
  run_option.is_last = run_option.name == "help" || run_option.name == "print-completion";
  return run_option;
}

std::string variable_of(std::string_view option) {
  std::string name = "PET_";
  for (const char c : option)
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string listed(const std::vector<std::string>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? "" : i + 1 == values.size() ? " or " : ", ") + values[i];
  return text;
}

tl::unexpected<Error> wrong(const std::string& source, const std::string& value,
                            const std::string& wanted) {
  return fail(ErrorKind::InvalidArgument,
              fmt::format("{} is {}; it takes {}", source, printable(value), wanted));
}

class Parser {
 public:
  Parser(const Environment& environment, CalledAs called_as)
      : environment_(environment),
        called_as_(called_as),
        flags_(defaults(called_as)),
        command_(describe_run(app_, flags_)) {
    for (CLI::Option* option : command_.get_options()) known_.push_back(described(*option));
  }

  Result<RunFlags> parse(const std::vector<std::string>& words) {
    auto split = split_run_words(words, known_);
    if (!split) return tl::unexpected(split.error());
    std::map<std::string, std::string> values;
    for (auto& [name, value] : split->options) {
      flags_.given[name] = "--" + name;
      values[name] = std::move(value);  // The last one counts.
    }
    if (values.contains("help")) {
      if (called_as_ == CalledAs::Torchrun) command_.name("torchrun");
      flags_.to_print = in_columns(command_.help(called_as_ == CalledAs::Torchrun ? "" : "regroup"),
                                   help_columns());
      return std::move(flags_);
    }
    for (const RunOption& option : known_)
      if (const auto value = values.find(option.name); value != values.end())
        if (auto good = set(option, value->second); !good) return tl::unexpected(good.error());
    if (!flags_.print_completion.empty()) {
      flags_.to_print =
          flags_.print_completion == "zsh" ? zsh_completion(known_) : bash_completion(known_);
      return std::move(flags_);
    }
    if (auto good = read_environment(); !good) return tl::unexpected(good.error());
    if (!split->script)
      return fail(ErrorKind::InvalidArgument,
                  fmt::format("no script to run. For example: {} --nproc-per-node=4 train.py.",
                              called_as_ == CalledAs::Torchrun ? "torchrun" : "regroup run"));
    flags_.script = std::move(*split->script);
    flags_.script_arguments = std::move(split->arguments);
    return std::move(flags_);
  }

 private:
  static RunFlags defaults(CalledAs called_as) {
    RunFlags flags;
    if (called_as == CalledAs::Torchrun) flags.exit_code = flags.report = "torchrun";
    return flags;
  }

  Result<void> read_environment() {
    for (const TorchrunOption& of : kTorchrunOptions) {
      const std::string variable = variable_of(of.name);
      const std::string name(of.name);
      const char* text = of.has_variable ? environment_(variable.c_str()) : nullptr;
      if (text == nullptr || flags_.given.contains(name)) continue;
      flags_.given[name] = variable;
      const auto option = std::find_if(known_.begin(), known_.end(),
                                       [&](const RunOption& known) { return known.name == name; });
      if (auto good = option->takes_value ? set(*option, text) : set_flag(*option, text); !good)
        return good;
    }
    take_variable(kSecretFile, flags_.rdzv_secret_file);
    take_variable(kChildren, flags_.workers.children);
    if (flags_.python.empty())
      if (const char* python = environment_("PYTHON_EXEC"); python != nullptr)
        flags_.python = python;
    return {};
  }

  void take_variable(std::string_view option, std::string& value) {
    const char* text = environment_(variable_of(option).c_str());
    if (text == nullptr || flags_.given.contains(std::string(option))) return;
    flags_.given[std::string(option)] = variable_of(option);
    value = text;
  }

  // A flag's variable is a number. It can turn the flag on, but not off.
  Result<void> set_flag(const RunOption& option, const std::string& text) {
    const auto number = python_int(text);
    if (!number) return wrong(flags_.named(option.name), text, "1 for --" + option.name + ", or 0");
    if (*number == 0) {
      flags_.given.erase(option.name);
      return {};
    }
    return set(option, "");
  }

  Result<void> set(const RunOption& option, const std::string& value) {
    const std::string source = flags_.named(option.name);
    if (option.name == "print-completion" && value == "tcsh")
      return fail(ErrorKind::InvalidArgument,
                  "there is no completion for tcsh; --print-completion takes bash or zsh");
    if (option.name == "logs-specs" && value.empty()) return {};
    if (!option.choices.empty() &&
        std::find(option.choices.begin(), option.choices.end(), value) == option.choices.end())
      return wrong(source, value, listed(option.choices) + why(option.name));
    // The library would take an empty value for a missing one.
    if (option.name == "duplicate-stdout-filters") flags_.workers.out_filters = value;
    if (option.name == "duplicate-stderr-filters") flags_.workers.err_filters = value;
    if (option.name.starts_with("duplicate-")) return {};
    // Kept as text: only that it is a time matters.
    if (option.name == "monitor-interval" && !seconds_of(value))
      return wrong(source, value, kTakesTime);
    CLI::Option* target = command_.get_option("--" + option.name);
    try {
      target->clear();
      target->add_result(option.takes_value ? value : "true");
      target->run_callback();
    } catch (const CLI::Error&) {
      return wrong(source, value,
                   option.value_name == "TIME"   ? kTakesTime
                   : option.value_name == "SIZE" ? "a size such as 512MB"
                                                 : "a whole number from 0 to 10000");
    }
    return {};
  }

  static std::string why(const std::string& option) {
    return option == "logs-specs" ? ": plug-ins of Python packages cannot run here" : "";
  }

  const Environment& environment_;
  const CalledAs called_as_;
  CLI::App app_{"", "regroup"};
  RunFlags flags_;
  CLI::App& command_;  // Writes into the flags.
  std::vector<RunOption> known_;
};

}  // namespace

Result<RunFlags> parse_run_flags(const std::vector<std::string>& words,
                                 const Environment& environment, CalledAs called_as) {
  return Parser(environment, called_as).parse(words);
}

}  // namespace regroup::cli
