// Where a log file that has a largest size is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace regroup::core::output {

struct FileEnd {
  std::uint64_t size = 0;
  std::uint64_t unfinished = 0;  // Bytes of the line at its end that has no newline yet.
};

struct RotationStep {
  std::size_t write = 0;  // Write so much of the bytes,
  bool rotate = false;    // then, before the others, begin a new file.
  friend bool operator==(const RotationStep&, const RotationStep&) = default;
};

// What to do next to append `bytes`. A line is split over files only if it alone is longer than the
// limit. To keep a line whole whose beginning is written already, a file may exceed its limit by
// the rest of that line.
RotationStep next_step(FileEnd end, std::uint64_t limit, std::string_view bytes);

}  // namespace regroup::core::output
