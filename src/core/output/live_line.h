// A line at the bottom of a terminal that says what is waited for, and counts the seconds. Drawn in
// place again and again; whatever else is written wipes it out first (arranger.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/instant.h"

namespace regroup::core::output {

// A wait shorter than this is not shown: nobody needs to know about it.
inline constexpr Duration kQuietAtFirst = 500ms;
// It is drawn no more often than that, whatever happens.
inline constexpr Duration kDrawAgain = 250ms;

struct LiveLine {
  std::string text;              // "waiting for nodes: 1 of 2 here"
  Instant since;                 // When the wait began.
  std::optional<Instant> until;  // When it is given up.
};

// "waiting for nodes: 1 of 2 here, 12 s; 571 s left", in no more than `columns` characters, and
// without anything that a terminal would take for a command.
std::string live_text(const LiveLine& line, Instant now, std::size_t columns);

// When to draw it next: at first after a moment of quiet, then as each second passes. `drawn` is
// when that was done last; empty: it is not on the screen.
Instant next_drawing(const LiveLine& line, std::optional<Instant> drawn, Instant now);

}  // namespace regroup::core::output
