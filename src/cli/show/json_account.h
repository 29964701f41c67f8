// The output of `regroup run` for programs: each line is one JSON object. docs/cli.md lists its
// fields.
#pragma once

#include <cstdint>
#include <string>

#include "cli/show/view.h"
#include "regroup/agent.h"

namespace regroup::cli {

// `micros` since 1970 is when it happened. `report` is the text for people, at the end of a run
// that failed. Empty: at this level nothing is printed.
std::string json_account_of(const AgentEvent& event, View::Level level, std::int64_t micros,
                            const std::string& report = "");

// For lines that are no events: "warning", "error".
std::string json_line(const std::string& level, const std::string& event, const std::string& text,
                      std::int64_t micros);

}  // namespace regroup::cli
