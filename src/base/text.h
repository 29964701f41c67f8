// Text from strangers, made fit for a message to people.
#pragma once

#include <string>
#include <string_view>

namespace regroup {

// In quotes, with what cannot be printed written as \xNN, and cut to a length that fits a log line:
// a key may be kilobytes of anything, line ends and terminal commands included.
std::string printable(std::string_view bytes);

}  // namespace regroup
