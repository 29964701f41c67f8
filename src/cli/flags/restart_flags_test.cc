#include "cli/flags/restart_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/run/run_rules.h"

namespace regroup::cli {
namespace {

using testing::HasSubstr;

TEST(RestartFlags, WithoutAnyTheRulesAreTheUsualOnes) {
  const auto rules = parse_run_rules({}, "0");
  ASSERT_TRUE(rules) << rules.error().message;
  EXPECT_EQ(*rules, RunRules{});
}

TEST(RestartFlags, EveryRuleOfTheRunCanBeTyped) {
  std::set<std::string> flags{"--nnodes", "--max-restarts"};  // Those are torchrun's.
  for (const RuleFlag& flag : rule_flags()) flags.insert("--" + std::string(flag.name));
  core::run::for_each_rule([&](const core::run::RuleRow& row, auto) {
    if (*row.flag != 0) {
      EXPECT_TRUE(flags.contains(row.flag)) << row.flag;
    }
  });
}

TEST(RestartFlags, AWrongValueNamesItsFlag) {
  for (const RuleFlag& flag : rule_flags()) {
    RestartFlags flags;
    flags.rules.at(flag.name) = "nonsense";
    const auto rules = parse_run_rules(flags, "0");
    ASSERT_FALSE(rules) << flag.name;
    EXPECT_THAT(rules.error().message, HasSubstr("--" + std::string(flag.name) + " is 'nonsense'"));
    EXPECT_THAT(rules.error().message, HasSubstr(flag.wanted));
  }
}

TEST(RestartFlags, AFlagThatHasADefaultIsNotEmpty) {
  RestartFlags flags;
  flags.rules.at("heartbeat-limit") = "";
  EXPECT_FALSE(parse_run_rules(flags, "0"));
}

TEST(RestartFlags, SomeSayTwoRulesAtOnce) {
  RestartFlags flags;
  flags.rules.at("crash-loop") = "3/30s";
  const auto rules = parse_run_rules(flags, "5/1h");
  ASSERT_TRUE(rules) << rules.error().message;
  EXPECT_EQ(
      *rules,
      (RunRules{.max_restarts = 5, .restart_window = 1h, .crash_loop = 3, .crash_loop_time = 30s}));
  flags.rules.at("restart-policy") = "torchrun";
  EXPECT_FALSE(parse_run_rules(flags, "5/1h"));
}

}  // namespace
}  // namespace regroup::cli
