// What may grow in this room.
#pragma once

#include <cstddef>

namespace regroup::io {

// Most requests of a store are far smaller than this; each of ten thousand idle clients holds it.
inline constexpr std::size_t kFirstRead = 1024;
// While reads come full they grow up to this: one client must not hold the loop for long.
inline constexpr std::size_t kLargestRead = 256 * 1024;
// What an idle connection may keep of an output buffer that had to grow; the rest is freed.
inline constexpr std::size_t kIdleOutput = 4096;
// Connections accepted in one turn; the others wait in the kernel's queue until the next.
inline constexpr int kAcceptsInOneTurn = 256;
// What a named pipe holds, where the system allows it; a full one makes its writers wait.
inline constexpr std::size_t kFifoBytes = 1024 * 1024;

}  // namespace regroup::io
