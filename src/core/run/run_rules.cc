#include "core/run/run_rules.h"

#include <string_view>

namespace regroup::core::run {

std::string differing_flags(const RunRules& of_node, const RunRules& of_run) {
  std::string text;
  std::string_view last;  // Rules of one flag stand together.
  for_each_rule([&](const RuleRow& row, auto member) {
    const std::string_view flag = row.flag;
    if (flag.empty() || flag == last || of_node.*member == of_run.*member) return;
    if (row.own_per_node && of_run.per_node) return;
    text += (text.empty() ? "" : ", ") + std::string(flag);
    last = flag;
  });
  return text;
}

bool ask_for_a_coordinator(const RunRules& rules) {
  const RunRules none;
  bool any = false;
  for_each_rule([&](const RuleRow& row, auto member) {
    any |= row.needs_a_coordinator && rules.*member != none.*member;
  });
  return any || rules.rejoin_timeout;
}

std::string why_impossible(const RunRules& rules) {
  if (rules.min_nodes > rules.max_nodes) return "its minimum of nodes is above the maximum";
  if (rules.segment > 0 &&
      (rules.min_nodes % rules.segment != 0 || rules.max_nodes % rules.segment != 0))
    return "its numbers of nodes are no multiples of --segment";
  return "";
}

}  // namespace regroup::core::run
