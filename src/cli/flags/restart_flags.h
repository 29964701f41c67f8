// Flags about restarts and lost nodes: what a run with a coordinator agrees on.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "regroup/rendezvous.h"
#include "regroup/result.h"
#include "regroup/time.h"

namespace regroup::cli {

// What was typed, as it was typed. Empty: not given.
struct RestartFlags {
  std::string policy = "run";
  std::string crash_loop;
  std::string no_restart_codes;
  std::string node_strikes;
  std::string max_changes;
  std::string rejoin_timeout;
  std::string heartbeat_limit = "5s";
  std::string reconnect_grace = "100ms";
  std::string preempt_signal;
  std::string segment;
};

// "90", "90s", "1.5h", "100ms": seconds if there is no unit.
std::optional<Duration> parse_time(std::string_view text);

// `max_restarts`: "3", or "3/1h". A wrong value is an InvalidArgument that names its flag.
Result<RunRules> parse_run_rules(const RestartFlags& flags, const std::string& max_restarts);

}  // namespace regroup::cli
