// Text for messages to people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "regroup/time.h"

namespace regroup {

// Text from strangers: in quotes, with what cannot be printed written as \xNN, and cut to a length
// that fits a log line. A key may be kilobytes of anything, including line ends and terminal
// commands.
std::string printable(std::string_view bytes);

// Whole seconds, rounded up: "12 s", "9m50s", "2h05m".
std::string in_words(Duration duration);

// "512 B", "64.0 MiB", "1.2 GiB".
std::string size_in_words(std::uint64_t bytes);

// "1 node", "3 nodes".
template <class Number>
std::string count_of(Number count, std::string_view what) {
  std::string text = std::to_string(count) + " ";
  text += what;
  return count == 1 ? text : text + "s";
}

// Ascending numbers, neighbours together: "0-2, 5, 8-15".
std::string in_ranges(const std::vector<int>& numbers);

// "rank 3", "ranks 0-2, 5", whatever their order.
std::string ranks_in_words(std::vector<int> ranks);

}  // namespace regroup
