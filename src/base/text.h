// Text for messages to people.
#pragma once

#include <string>
#include <string_view>

#include "regroup/time.h"

namespace regroup {

// Text from strangers: in quotes, with what cannot be printed written as \xNN, and cut to a length
// that fits a log line: a key may be kilobytes of anything, line ends and terminal commands
// included.
std::string printable(std::string_view bytes);

// Whole seconds, rounded up: "12 s", "9m50s", "2h05m".
std::string in_words(Duration duration);

}  // namespace regroup
