// What may grow in a store, how far, and what happens there.
#pragma once

#include <cstddef>

namespace regroup::core::store {

// The defaults of the first three are those of PyTorch's own server.
struct Limits {
  // A request beyond one of these is malformed: the connection that sent it is closed.
  std::size_t key_bytes = 8192;  // With every prefix.
  std::size_t value_bytes =
      8 * 1024 * 1024;                     // Of one value in a request; append may add up to more.
  std::size_t keys_per_request = 131072;   // In check, wait, multi_get, multi_set.
  std::size_t request_bytes = 512u << 20;  // Of one whole request, so of what is held for it.

  // A request that would go beyond one of these is refused and changes nothing.
  std::size_t keys = 16u << 20;                     // Keys and queues together.
  std::size_t memory_bytes = std::size_t{4} << 30;  // Keys, values, queues and waits.
  std::size_t reply_bytes = 512u << 20;             // Of one answer.
};

// What things cost beside their bytes: hash nodes, string headers, the allocator. Measured with
// glibc and rounded up, so that the limit on memory is a limit on memory.
inline constexpr std::size_t kKeyOverhead = 128;
inline constexpr std::size_t kQueueOverhead = 768;
inline constexpr std::size_t kElementOverhead = 64;
inline constexpr std::size_t kWaitOverhead = 256;  // For each key that is waited for.

}  // namespace regroup::core::store
