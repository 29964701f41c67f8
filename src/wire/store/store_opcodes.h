// The first byte of every request. Layouts C to G only ever append, so one table serves them all.
#pragma once

#include <cstdint>
#include <string_view>

namespace regroup::wire {

enum class Opcode : std::uint8_t {
  Validate = 0,
  Set = 1,
  CompareSet = 2,
  Get = 3,
  Add = 4,
  Check = 5,
  Wait = 6,
  NumKeys = 7,
  DeleteKey = 8,
  Append = 9,
  MultiGet = 10,
  MultiSet = 11,
  CancelWait = 12,
  Ping = 13,       // From layout D on.
  QueuePush = 14,  // From layout E on.
  QueuePop = 15,
  QueueLen = 16,
  ListKeys = 17,  // From layout F on.
  Barrier = 18,   // Layout G.
};

// Opcode Validate and the number 0x3C85F7CE.
inline constexpr std::string_view kGreeting{"\x00\xce\xf7\x85\x3c", 5};

}  // namespace regroup::wire
