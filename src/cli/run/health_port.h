// Where the health port of `regroup run` is to be, as the user gives it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/run/run_flags.h"
#include "regroup/agent.h"

namespace regroup::cli {

// "8080" and ":8080" are every address, IPv4 and IPv6; "127.0.0.1:8080", "[::1]:8080" and
// "node-1:8080" are that one. Port 0 is any free one.
Result<HealthOptions> parse_health_port(const std::string& text);

// From --health-port, which must be available; else from TORCHELASTIC_HEALTH_CHECK_PORT
// (`variable`; null: not set), a number, without which a job runs just as well: what is wrong with
// it is added to `notes`.
Result<std::optional<HealthOptions>> choose_health_port(const RunFlags& flags, const char* variable,
                                                        std::vector<std::string>& notes);

}  // namespace regroup::cli
