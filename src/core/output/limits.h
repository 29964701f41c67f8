// What may grow in this room.
#pragma once

#include <cstddef>

namespace regroup::core::output {

// How much of an unfinished line is held for the console; beyond it the line is broken with a
// newline. Files are not affected.
inline constexpr std::size_t kLongestLine = 16 * 1024 * 1024;
// What a buffer that held a long line may keep once that is gone.
inline constexpr std::size_t kIdleLine = 256 * 1024;
// The end of a stream that is remembered for the report of a failure; the older is forgotten.
inline constexpr std::size_t kTailBytes = 64 * 1024;

}  // namespace regroup::core::output
