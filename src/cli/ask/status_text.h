// What `regroup status` tells people: whole lines, each with its end. Pure.
#pragma once

#include <string>
#include <string_view>

#include "cli/show/paint.h"
#include "core/run/run_status.h"

namespace regroup::cli {

struct StatusLayout {
  std::size_t columns = 0;  // Of the window. 0: unlimited.
  bool all = false;         // Every node and every run, however many.
  Paint paint = {};
};

// If there are more nodes than this, only those with something special about them are listed.
inline constexpr std::size_t kNodesListed = 40;
// If more runs than this have ended, only their number is shown.
inline constexpr std::size_t kEndedRunsListed = 10;

// `where`: HOST:PORT, for the case that there is no run.
std::string status_text(const core::run::PortStatus& status, const std::string& where,
                        const StatusLayout& layout);

// For a window that is too low: the first lines, and how many there would be. 0: any height.
std::string fit_rows(const std::string& text, std::size_t rows);

// A sentence that came from another machine, made safe for a terminal; its first line.
std::string first_line(std::string_view text);

}  // namespace regroup::cli
