#include "cli/run/completion.h"

#include <fmt/core.h>

namespace regroup::cli {
namespace {

constexpr std::string_view kCommands = "coordinator rendezvous run spawn status store";

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// For a text in single quotes whose brackets and colons would have a meaning.
std::string zsh_escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'') {
      escaped += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string zsh_value(const RunOption& option) {
  if (!option.takes_value) return "";
  std::string how = " ";  // There is nothing to offer.
  if (!option.choices.empty())
    how = "(" + joined(option.choices) + ")";
  else if (option.value_name == "DIR" || option.value_name == "FILE")
    how = option.value_name == "DIR" ? "_files -/" : "_files";
  return fmt::format(":{}:{}", zsh_escaped(option.value_name), how);
}

}  // namespace

std::string bash_completion(const std::vector<RunOption>& options) {
  std::string names;
  std::string with_value;
  std::string choices;
  for (const RunOption& option : options) {
    const std::string name = "--" + option.name;
    names += (names.empty() ? "" : " ") + name;
    if (!option.takes_value) continue;
    with_value += (with_value.empty() ? "" : " | ") + name;
    if (option.letter != 0) with_value += std::string(" | -") + option.letter;
    if (!option.choices.empty())
      choices += fmt::format("      {}) words='{}' ;;\n", name, joined(option.choices));
  }
  return R"(# Completes `regroup run`. To load it: source <(regroup run --print-completion bash)
_regroup() {
  local current=${COMP_WORDS[COMP_CWORD]} word words= option= i
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W ')" +
         std::string(kCommands) + R"(' -- "$current"))
    return
  fi
  [[ ${COMP_WORDS[1]} == run ]] || return
  for ((i = 2; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    [[ $word == '=' ]] && continue  # bash makes three words of --name=value.
    if [[ -n $option ]]; then
      option=
      continue
    fi
    case ${word//_/-} in
      )" +
         with_value + R"() option=${word//_/-} ;;
      --) return ;;
      -*) ;;
      *) return ;;  # The script: what follows is its own.
    esac
  done
  if [[ -n $option ]]; then
    [[ $current == '=' ]] && current=
    case $option in
)" + choices +
         R"(    esac
    [[ -n $words ]] || return
  else
    [[ $current == -* ]] || return
    words=')" +
         names + R"('
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o bashdefault -o default -F _regroup regroup
)";
}

std::string zsh_completion(const std::vector<RunOption>& options) {
  std::string specs;
  for (const RunOption& option : options) {
    const std::string rest =
        fmt::format("[{}]{}' \\\n", zsh_escaped(option.help), zsh_value(option));
    specs += fmt::format("    '--{}{}{}", option.name, option.takes_value ? "=" : "", rest);
    if (option.letter != 0)
      specs += fmt::format("    '-{}{}{}", option.letter, option.takes_value ? "+" : "", rest);
  }
  return R"(#compdef regroup
# Completes `regroup run`. To load it, after compinit: source <(regroup run --print-completion zsh)
_regroup() {
  if ((CURRENT == 2)); then
    compadd )" +
         std::string(kCommands) + R"(
    return
  fi
  if [[ $words[2] != run ]]; then
    _files
    return
  fi
  shift words
  ((CURRENT--))
  # -A: what follows the script is its own.
  _arguments -s -S -A '-*' \
)" + specs +
         R"(    '1:script:_files' \
    '*:argument:_files'
}
if [[ $funcstack[1] == _regroup ]]; then
  _regroup "$@"
else
  compdef _regroup regroup
fi
)";
}

}  // namespace regroup::cli
