// The end of a stream: its last kTailBytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace regroup::core::output {

class Tail {
 public:
  void add(std::string_view bytes);

  // From the start of a line, unless all of it is one line.
  std::string text() const;

 private:
  std::string ring_;  // Grows to one byte more than is shown, which tells whether a line starts.
  std::size_t oldest_ = 0;
};

// The same for what was read from the end of a file. `whole`: that is all there is in it; else the
// first byte is only looked at.
std::string from_line_start(std::string_view end_of_stream, bool whole);

}  // namespace regroup::core::output
