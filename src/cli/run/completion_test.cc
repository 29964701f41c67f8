#include "cli/run/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

namespace regroup::cli {
namespace {

using testing::HasSubstr;

const std::vector<RunOption>& some_options() {
  static const std::vector<RunOption> options{
      {.name = "nnodes", .value_name = "N|MIN:MAX", .help = "How many: N, or [MIN]"},
      {.name = "module", .letter = 'm', .takes_value = false, .help = "It's a module"},
      {.name = "start-method", .value_name = "HOW", .choices = {"spawn", "fork", "forkserver"}},
      {.name = "tee", .letter = 't', .value_name = "STREAMS"},
      {.name = "log-dir", .value_name = "DIR"},
  };
  return options;
}

// What bash offers for the last of the words.
std::string offered(const std::string& words) {
  const std::string script = bash_completion(some_options()) + "\nCOMP_WORDS=(" + words +
                             ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_regroup\n"
                             "echo -n \"${COMPREPLY[*]}\"\n";
  std::string quoted;
  for (const char c : script) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(("bash -c '" + quoted + "'").c_str(), "r"),
                                                   pclose);
  std::string text;
  for (int c = fgetc(pipe.get()); c != EOF; c = fgetc(pipe.get())) text += static_cast<char>(c);
  return text;
}

TEST(Completion, OffersFlagsAndValues) {
  const std::vector<std::pair<const char*, const char*>> table{
      {"regroup r", "rendezvous run"},
      {"regroup st", "status store"},
      {"regroup run --n", "--nnodes"},
      {"regroup run -m --nnodes 2 --l", "--log-dir"},
      {"regroup run --nnodes = 2 --l", "--log-dir"},
      {"regroup run --start-method f", "fork forkserver"},
      {"regroup run --start_method = f", "fork forkserver"},
      {"regroup run --start-method =", "spawn fork forkserver"},
      {"regroup run -t 3 --m", "--module"},
      {"regroup run --nnodes --n", ""},
      {"regroup run train.py --n", ""},
      {"regroup run -- --n", ""},
      {"regroup run --nnodes 2 train.py --start-method f", ""},
      {"regroup run tr", ""},
      {"regroup store --n", ""},
  };
  for (const auto& [words, offer] : table) EXPECT_EQ(offered(words), offer) << words;
}

TEST(Completion, DescribesTheFlagsToZsh) {
  const std::string script = zsh_completion(some_options());
  EXPECT_TRUE(script.starts_with("#compdef regroup\n"));
  EXPECT_THAT(script, HasSubstr(R"('--nnodes=[How many\: N, or \[MIN\]]:N|MIN\:MAX: ')"));
  EXPECT_THAT(script, HasSubstr(R"('--module[It'\''s a module]')"));
  EXPECT_THAT(script, HasSubstr(R"('-m[It'\''s a module]')"));
  EXPECT_THAT(script, HasSubstr(R"('-t+[]:STREAMS: ')"));
  EXPECT_THAT(script, HasSubstr("'--start-method=[]:HOW:(spawn fork forkserver)'"));
  EXPECT_THAT(script, HasSubstr("'--log-dir=[]:DIR:_files -/'"));
}

}  // namespace
}  // namespace regroup::cli
