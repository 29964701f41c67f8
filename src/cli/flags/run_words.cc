#include "cli/flags/run_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/nearest.h"
#include "base/text.h"
#include "base/text_parts.h"

namespace regroup::cli {
namespace {

constexpr std::string_view kDigits = "0123456789";

std::string with_dashes(std::string_view name) {
  std::string dashed(name);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  return dashed;
}

// "-1", "-.5": no option looks like that, so it can be a value.
bool is_negative_number(std::string_view word) {
  word.remove_prefix(1);
  const std::size_t point = std::min(word.find('.'), word.size());
  const std::string_view fraction = word.substr(std::min(point + 1, word.size()));
  const bool is_whole = point == word.size();
  return word.substr(0, point).find_first_not_of(kDigits) == std::string_view::npos &&
         fraction.find_first_not_of(kDigits) == std::string_view::npos &&
         !(is_whole ? word : fraction).empty();
}

// By the rules of Python's argparse, which decide what torchrun takes for a value or a script.
bool looks_like_option(std::string_view word) {
  return word.size() > 1 && word.front() == '-' && !is_negative_number(word) &&
         word.find(' ') == std::string_view::npos;
}

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorKind::InvalidArgument, std::move(message));
}

class Splitter {
 public:
  Splitter(const std::vector<std::string>& words, const std::vector<RunOption>& known)
      : words_(words), known_(known) {}

  Result<RunWords> split() {
    while (at_ < words_.size() && !ended_) {
      const std::string& word = words_[at_];
      if (word == "--") {
        ++at_;
        take_script(false);
      } else if (word.starts_with("--") && looks_like_option(word.substr(0, word.find('=')))) {
        if (auto taken = take_long(word); !taken) return tl::unexpected(taken.error());
      } else if (word.size() > 1 && word.front() == '-' && !is_negative_number(word)) {
        if (auto taken = take_letters(word); !taken) return tl::unexpected(taken.error());
      } else {
        take_script(true);
      }
    }
    return std::move(result_);
  }

 private:
  // Of two "--", one before and one after the script, only the first is ours.
  void take_script(bool swallow_dashes) {
    ended_ = true;
    if (at_ == words_.size()) return;
    result_.script = words_[at_++];
    if (swallow_dashes && at_ < words_.size() && words_[at_] == "--") ++at_;
    result_.arguments.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
  }

  Result<void> take_long(const std::string& word) {
    ++at_;
    const std::size_t equals = word.find('=');
    const auto option = find(word.substr(0, equals));
    if (!option) return tl::unexpected(option.error());
    if (equals == std::string::npos) return take_value(**option, "--" + (*option)->name);
    if (!(*option)->takes_value)
      return wrong(fmt::format("--{} takes no value, but has {}. Write it without.",
                               (*option)->name, printable(word.substr(equals + 1))));
    return take(**option, word.substr(equals + 1));
  }

  Result<void> take_letters(const std::string& word) {
    ++at_;
    for (std::size_t i = 1; i < word.size() && !ended_; ++i) {
      const auto option = std::find_if(known_.begin(), known_.end(), [&](const RunOption& known) {
        return known.letter == word[i];
      });
      if (option == known_.end())
        return wrong("unknown flag " + printable(i == 1 ? word : std::string{'-', word[i]}) +
                     (i == 1 ? "." : " in " + printable(word) + "."));
      if (option->takes_value) {
        const std::string rest = word.substr(i + 1);
        if (rest.empty()) return take_value(*option, std::string{'-', word[i]});
        return take(*option, rest.substr(rest.front() == '=' ? 1 : 0));
      }
      if (auto taken = take(*option, ""); !taken) return taken;
    }
    return {};
  }

  Result<void> take_value(const RunOption& option, const std::string& spelling) {
    if (!option.takes_value) return take(option, "");
    if (at_ == words_.size()) return wrong(spelling + " takes a value, but nothing follows it.");
    const std::string& value = words_[at_];
    if (looks_like_option(value))
      return wrong(
          fmt::format("{} takes a value, but {} follows it. If that is the value, write --{}={}.",
                      spelling, printable(value), option.name, value));
    ++at_;
    return take(option, value);
  }

  Result<void> take(const RunOption& option, std::string value) {
    result_.options.push_back({.name = option.name, .value = std::move(value)});
    ended_ = option.is_last;
    return {};
  }

  Result<const RunOption*> find(const std::string& word) const {
    const std::string typed = with_dashes(word.substr(2));
    std::vector<const RunOption*> matching;
    for (const RunOption& option : known_) {
      if (option.name == typed) return &option;
      if (option.name.starts_with(typed)) matching.push_back(&option);
    }
    std::vector<const RunOption*> of_torchrun;
    for (const RunOption* option : matching)
      if (option->of_torchrun) of_torchrun.push_back(option);
    if (matching.size() == 1) return matching.front();
    // Our own options must not make scripts ambiguous that were written for torchrun.
    if (of_torchrun.size() == 1) return of_torchrun.front();
    if (!matching.empty()) return ambiguous(word, matching);
    if (typed == "use-env")
      return wrong(printable(word) +
                   " is of torch.distributed.launch: drop it. The workers find LOCAL_RANK in their "
                   "environment in any case.");
    std::vector<std::string> names;
    names.reserve(known_.size());
    for (const RunOption& option : known_) names.push_back("--" + option.name);
    const auto meant = nearest("--" + typed, names);
    return wrong("unknown flag " + printable(word) +
                 (meant ? "; did you mean " + *meant + "?"
                        : ". If it is for the script, write it behind the script's name."));
  }

  static tl::unexpected<Error> ambiguous(const std::string& word,
                                         const std::vector<const RunOption*>& matching) {
    std::string names;
    for (std::size_t i = 0; i < matching.size(); ++i)
      names += (i == 0                     ? ""
                : i + 1 == matching.size() ? " or "
                                           : ", ") +
               ("--" + matching[i]->name);
    return wrong(fmt::format("{} is ambiguous: it could be {}.", printable(word), names));
  }

  const std::vector<std::string>& words_;
  const std::vector<RunOption>& known_;
  std::size_t at_ = 0;
  bool ended_ = false;
  RunWords result_;
};

}  // namespace

Result<RunWords> split_run_words(const std::vector<std::string>& words,
                                 const std::vector<RunOption>& known) {
  return Splitter(words, known).split();
}

}  // namespace regroup::cli
