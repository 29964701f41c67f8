#include "cli/flags/run_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace regroup::cli {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

const std::vector<RunOption>& some_options() {
  static const std::vector<RunOption> options{
      {.name = "nnodes", .of_torchrun = true},
      {.name = "nproc-per-node", .letter = 'n', .of_torchrun = true},
      {.name = "module", .letter = 'm', .takes_value = false, .of_torchrun = true},
      {.name = "monitor-interval", .of_torchrun = true},
      {.name = "redirects", .letter = 'r', .of_torchrun = true},
      {.name = "rdzv-id", .of_torchrun = true},
      {.name = "tee", .letter = 't', .of_torchrun = true},
      {.name = "log-dir", .of_torchrun = true},
      {.name = "logs-specs", .of_torchrun = true},
      {.name = "event-log-handler", .of_torchrun = true},
      {.name = "event-log"},
      {.name = "quiet", .letter = 'q', .takes_value = false},
      {.name = "exit-code"},
      {.name = "help", .letter = 'h', .takes_value = false, .of_torchrun = true, .is_last = true},
  };
  return options;
}

// "nnodes=2 module | script arguments".
std::string told(const Words& words) {
  const auto split = split_run_words(words, some_options());
  if (!split) return split.error().message;
  std::string text;
  for (const auto& [name, value] : split->options)
    text += name + (value.empty() ? "" : "=" + value) + " ";
  text += "|";
  if (split->script) text += " " + *split->script;
  for (const std::string& argument : split->arguments) text += " " + argument;
  return text;
}

TEST(RunWords, AValueIsWrittenInManyWays) {
  const std::vector<std::pair<Words, const char*>> table{
      {{"--nnodes", "2", "s"}, "nnodes=2 | s"},
      {{"--nnodes=2", "s"}, "nnodes=2 | s"},
      {{"--nnodes=", "s"}, "nnodes | s"},
      {{"--nnodes", "", "s"}, "nnodes | s"},
      {{"--nnodes=a=b", "s"}, "nnodes=a=b | s"},
      {{"--rdzv-id=a b", "s"}, "rdzv-id=a b | s"},
      {{"-r3", "s"}, "redirects=3 | s"},
      {{"-r", "3", "s"}, "redirects=3 | s"},
      {{"-r=3", "s"}, "redirects=3 | s"},
      {{"-mr3", "s"}, "module redirects=3 | s"},
      {{"-mr", "3", "s"}, "module redirects=3 | s"},
      {{"-mqt3", "s"}, "module quiet tee=3 | s"},
      {{"-t", "-1", "s"}, "tee=-1 | s"},
      {{"-t", "-.5", "s"}, "tee=-.5 | s"},
      {{"--tee", "-", "s"}, "tee=- | s"},
      {{"--tee=-x", "s"}, "tee=-x | s"},
      {{"-t-x", "s"}, "tee=-x | s"},
      {{"--rdzv-id", "-a b", "s"}, "rdzv-id=-a b | s"},
      {{"--tee", "1", "--tee", "2", "s"}, "tee=1 tee=2 | s"},
  };
  for (const auto& [words, result] : table) EXPECT_EQ(told(words), result);
}

TEST(RunWords, DashesAndUnderscoresAreTheSame) {
  for (const char* word : {"--nproc-per-node=2", "--nproc_per_node=2", "--nproc-per_node=2"})
    EXPECT_EQ(told({word, "s"}), "nproc-per-node=2 | s");
}

TEST(RunWords, AUniqueAbbreviationWillDo) {
  EXPECT_EQ(told({"--redirect=3", "s"}), "redirects=3 | s");
  EXPECT_EQ(told({"--nnod", "2", "s"}), "nnodes=2 | s");
  EXPECT_EQ(told({"--mod", "s"}), "module | s");
  EXPECT_EQ(told({"--nproc", "2", "s"}), "nproc-per-node=2 | s");  // Whichever spelling.
  EXPECT_EQ(told({"--nproc_p", "2", "s"}), "nproc-per-node=2 | s");
  EXPECT_EQ(told({"--ex=worker", "s"}), "exit-code=worker | s");
}

TEST(RunWords, OurOptionsDoNotMakeThoseOfTorchrunAmbiguous) {
  EXPECT_EQ(told({"--event", "console", "s"}), "event-log-handler=console | s");
  EXPECT_EQ(told({"--event-log", "file", "s"}), "event-log=file | s");  // An exact name wins.
  EXPECT_EQ(told({"--e", "null", "s"}), "event-log-handler=null | s");
}

TEST(RunWords, AnAmbiguousOneNamesTheCandidates) {
  EXPECT_THAT(told({"--mo", "s"}), HasSubstr("it could be --module or --monitor-interval"));
  EXPECT_THAT(told({"--log", "x", "s"}), HasSubstr("'--log' is ambiguous"));
  EXPECT_THAT(told({"--n=2", "s"}), HasSubstr("--nnodes or --nproc-per-node"));
}

TEST(RunWords, EverythingBehindTheScriptIsItsOwn) {
  EXPECT_EQ(told({"s", "--log", "x", "--mo", "--help", "-r3"}), "| s --log x --mo --help -r3");
  EXPECT_EQ(told({"--nnodes", "2", "s", "--nnodes", "3"}), "nnodes=2 | s --nnodes 3");
  EXPECT_EQ(told({"s", ""}), "| s ");
  EXPECT_EQ(told({"-", "a"}), "| - a");
}

TEST(RunWords, OnePairOfDashesBesideTheScriptIsSwallowed) {
  const std::vector<std::pair<Words, const char*>> table{
      {{"--", "s", "a"}, "| s a"},
      {{"s", "--", "a"}, "| s a"},
      {{"--", "s", "--", "a"}, "| s -- a"},
      {{"s", "--", "--", "a"}, "| s -- a"},
      {{"s", "a", "--", "b"}, "| s a -- b"},
      {{"--nnodes=2", "--", "s", "--log"}, "nnodes=2 | s --log"},
      {{"--", "--nnodes", "2"}, "| --nnodes 2"},
      {{"--"}, "|"},
      {{}, "|"},
  };
  for (const auto& [words, result] : table) EXPECT_EQ(told(words), result);
}

TEST(RunWords, WhatCannotBeIsExplained) {
  const std::vector<std::pair<Words, const char*>> table{
      {{"--nnodes"}, "--nnodes takes a value, but nothing follows it"},
      {{"--nnod", "--tee", "s"}, "--nnodes takes a value, but '--tee' follows it"},
      {{"--tee", "-x", "s"}, "write --tee=-x"},
      {{"-mt", "-x", "s"}, "-t takes a value, but '-x' follows it"},
      {{"--nnodes", "--", "s"}, "--nnodes takes a value, but '--' follows it"},
      {{"--module=1", "s"}, "--module takes no value, but has '1'"},
      {{"--nnodez", "2"}, "unknown flag '--nnodez'; did you mean --nnodes?"},
      {{"--learning-rate", "2"}, "write it behind the script's name"},
      {{"-x"}, "unknown flag '-x'"},
      {{"-mx3"}, "unknown flag '-x' in '-mx3'"},
  };
  for (const auto& [words, message] : table) {
    EXPECT_THAT(told(words), HasSubstr(message));
  }
}

TEST(RunWords, WhatFollowsAHelpDoesNotCount) {
  EXPECT_EQ(told({"--help", "--nonsense"}), "help |");
  EXPECT_EQ(told({"-mhx"}), "module help |");
  EXPECT_THAT(told({"--nonsense", "--help"}), HasSubstr("unknown flag"));
}

}  // namespace
}  // namespace regroup::cli
