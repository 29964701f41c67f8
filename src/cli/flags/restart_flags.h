// Flags about restarts and lost nodes: the rules of a run with a coordinator.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "regroup/result.h"
#include "regroup/run_rules.h"
#include "regroup/time.h"

namespace regroup::cli {

// One flag about a rule of the run.
struct RuleFlag {
  const char* name;   // Without its dashes.
  const char* value;  // What is to be typed: "N/TIME".
  const char* help;
  const char* usual = "";  // The default, as it would be typed.
  // Writes the value into the rules. False: it takes something else, which `wanted` says.
  bool (*parse)(const std::string& text, RunRules& rules);
  const char* wanted;
};
// In the order of the help; --max-restarts, which is torchrun's, is not among them.
std::span<const RuleFlag> rule_flags();

// The values as they were typed. Empty: not given.
struct RestartFlags {
  RestartFlags();
  std::map<std::string, std::string> rules;  // By the names of rule_flags(): each is there.
};

// "90", "90s", "1.5h", "100ms": seconds if there is no unit.
std::optional<Duration> parse_time(std::string_view text);

// `max_restarts`: "3", or "3/1h". A wrong value is an InvalidArgument that names its flag.
Result<RunRules> parse_run_rules(const RestartFlags& flags, const std::string& max_restarts);

}  // namespace regroup::cli
