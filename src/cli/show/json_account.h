// The account of `regroup run` for programs: each line is one JSON object. docs/cli.md lists what
// is in it.
#pragma once

#include <cstdint>
#include <string>

#include "cli/show/view.h"
#include "regroup/agent.h"

namespace regroup::cli {

// `micros` since 1970 is when it was said. `report` is the text for people, at the end of a run
// that failed. Empty: at this level nothing is said of it.
std::string json_account_of(const AgentEvent& event, View::Level level, std::int64_t micros,
                            const std::string& report = "");

// What is no event: "warning", "error".
std::string json_line(const std::string& level, const std::string& event, const std::string& text,
                      std::int64_t micros);

}  // namespace regroup::cli
