#include "core/run/run_rules.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace regroup::core::run {
namespace {

struct Anything {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor): a member is made of it.
};

template <class T, std::size_t... kIndex>
constexpr bool takes(std::index_sequence<kIndex...> /*fields*/) {
  return requires { T{(static_cast<void>(kIndex), Anything{})...}; };
}

template <class T, std::size_t kFields = 0>
constexpr std::size_t fields_of() {
  if constexpr (takes<T>(std::make_index_sequence<kFields + 1>{}))
    return fields_of<T, kFields + 1>();
  else
    return kFields;
}

// A rule that is not listed would not be sent to anyone, and no test of its own would notice.
TEST(RunRules, EveryOneIsListedButTheNodesOwn) {
  std::size_t listed = 0;
  for_each_rule([&](const RuleRow&, auto) { ++listed; });
  EXPECT_EQ(listed + 1, fields_of<RunRules>());  // rejoin_timeout
}

// An older peer finds the rules by their place.
TEST(RunRules, NewOnesStandAtTheEnd) {
  std::uint32_t last = 1;
  for_each_rule([&](const RuleRow& row, auto) {
    EXPECT_GE(row.since, last) << row.text;
    last = row.since;
  });
  EXPECT_EQ(newest_rule(), last);
}

TEST(RunRules, RulesOfOneFlagStandTogether) {
  std::set<std::string> seen;
  std::string last;
  for_each_rule([&](const RuleRow& row, auto) {
    if (row.flag != last && row.flag[0] != 0) {
      EXPECT_TRUE(seen.insert(row.flag).second) << row.flag;
    }
    last = row.flag;
  });
}

TEST(RunRules, FlagsThatDifferAreNamedOnce) {
  const RunRules run{.min_nodes = 2, .max_nodes = 4, .max_restarts = 3};
  EXPECT_EQ(differing_flags(run, run), "");
  RunRules node = run;
  node.min_nodes = 1;
  node.max_nodes = 8;
  node.max_restarts = 1;
  node.restart_window = 1h;
  node.segment = 2;
  EXPECT_EQ(differing_flags(node, run), "--nnodes, --max-restarts, --segment");
}

TEST(RunRules, WhatIsTheNodesOwnMayDiffer) {
  RunRules run{.max_restarts = 3, .per_node = true};
  RunRules node = run;
  node.max_restarts = 5;
  node.rejoin_timeout = 60s;
  node.last_call = 1s;
  EXPECT_EQ(differing_flags(node, run), "");
  run.per_node = node.per_node = false;
  EXPECT_EQ(differing_flags(node, run), "--max-restarts");
}

TEST(RunRules, SomeAskForACoordinator) {
  EXPECT_FALSE(ask_for_a_coordinator({}));
  EXPECT_FALSE(ask_for_a_coordinator({.max_restarts = 3, .heartbeat_limit = 1s}));
  EXPECT_TRUE(ask_for_a_coordinator({.restart_window = 1h}));
  EXPECT_TRUE(ask_for_a_coordinator({.no_restart_codes = {3}}));
  EXPECT_TRUE(ask_for_a_coordinator({.max_membership_changes = 0}));
  EXPECT_TRUE(ask_for_a_coordinator({.rejoin_timeout = 1s}));
}

TEST(RunRules, SomeAreImpossible) {
  EXPECT_EQ(why_impossible({.min_nodes = 2, .max_nodes = 4, .segment = 2}), "");
  EXPECT_NE(why_impossible({.min_nodes = 2, .max_nodes = 1}), "");
  EXPECT_NE(why_impossible({.min_nodes = 2, .max_nodes = 5, .segment = 2}), "");
}

}  // namespace
}  // namespace regroup::core::run
