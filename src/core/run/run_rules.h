// The one list of a run's rules (regroup/run_rules.h). What is told on the wire, compared between
// nodes and shown to people is made from it; a rule that is added to the struct gets a row here.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "regroup/run_rules.h"

namespace regroup::core::run {

struct RuleRow {
  const char* text;  // How a message about a wrong value begins: "the last call is …".
  // The flag that sets it. Empty: it has no flag of its own, and nodes may differ in it.
  const char* flag = "";
  std::int64_t least = 0;  // Of numbers.
  // The first version of the session protocol that sends it. A new rule is sent at the end.
  std::uint32_t since = 1;
  const char* status = "";  // Its name in the answer to `regroup status`; empty: not there.
  bool needs_a_coordinator = false;  // A node with this flag relies on a coordinator.
  bool own_per_node = false;         // Where each node counts its own restarts, nodes may differ.
};

// Calls visit(row, &RunRules::member) for each rule, in the order of the wire.
template <class Visit>
constexpr void for_each_rule(Visit&& visit) {
  visit(
      RuleRow{
          .text = "the minimum of nodes", .flag = "--nnodes", .least = 1, .status = "min_nodes"},
      &RunRules::min_nodes);
  visit(
      RuleRow{
          .text = "the maximum of nodes", .flag = "--nnodes", .least = 1, .status = "max_nodes"},
      &RunRules::max_nodes);
  visit(RuleRow{.text = "the last call"}, &RunRules::last_call);
  visit(
      RuleRow{
          .text = "the heartbeat limit", .flag = "--heartbeat-limit", .status = "heartbeat_limit"},
      &RunRules::heartbeat_limit);
  visit(RuleRow{.text = "the reconnect grace", .flag = "--reconnect-grace"},
        &RunRules::reconnect_grace);
  visit(RuleRow{.text = "the restart limit",
                .flag = "--max-restarts",
                .least = std::numeric_limits<std::int64_t>::min(),
                .status = "max_restarts",
                .own_per_node = true},
        &RunRules::max_restarts);
  visit(
      RuleRow{.text = "the restart window", .flag = "--max-restarts", .needs_a_coordinator = true},
      &RunRules::restart_window);
  visit(RuleRow{.text = "the mark of counting per node", .flag = "--restart-policy"},
        &RunRules::per_node);
  visit(RuleRow{.text = "the crash loop", .flag = "--crash-loop", .needs_a_coordinator = true},
        &RunRules::crash_loop);
  visit(RuleRow{.text = "the crash loop's time", .flag = "--crash-loop"},
        &RunRules::crash_loop_time);
  visit(RuleRow{.text = "the codes", .flag = "--no-restart-codes", .needs_a_coordinator = true},
        &RunRules::no_restart_codes);
  visit(RuleRow{.text = "the strikes", .flag = "--node-strikes", .needs_a_coordinator = true},
        &RunRules::node_strikes);
  visit(RuleRow{.text = "the limit of changes",
                .flag = "--max-membership-changes",
                .needs_a_coordinator = true},
        &RunRules::max_membership_changes);
  visit(RuleRow{.text = "the segment", .flag = "--segment", .since = 2, .status = "segment"},
        &RunRules::segment);
  visit(RuleRow{.text = "the keep-alive interval", .since = 3}, &RunRules::keep_alive_interval);
  visit(RuleRow{.text = "the keep-alive attempts", .least = 1, .since = 3},
        &RunRules::keep_alive_max_attempt);
}

// The session protocol must be as new as its newest rule.
constexpr std::uint32_t newest_rule() {
  std::uint32_t newest = 0;
  for_each_rule([&](const RuleRow& row, auto /*member*/) {
    if (row.since > newest) newest = row.since;
  });
  return newest;
}

// The flags in which a node differs from its run: "--nnodes, --segment". Empty: in none.
std::string differing_flags(const RunRules& of_node, const RunRules& of_run);

// Whether any of these rules has no effect without a coordinator.
bool ask_for_a_coordinator(const RunRules& rules);

// Why no round could ever be sealed by these rules. Empty: one could.
std::string why_impossible(const RunRules& rules);

}  // namespace regroup::core::run
