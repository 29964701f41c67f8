// Seals behind the frames of a session whose sides have proven that they share a secret.
//
// A proof only says who is at the other end when it is made. An attacker in between could pass it
// on and then send its own frames. So every frame after the proof has a seal that only the two
// sides can make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/byte_buffer.h"
#include "core/coordinator/messages.h"

namespace regroup::runtime {

inline constexpr std::size_t kSealBytes = 16;

// Seals the frames of one direction. The number of the frame is part of its seal: no frame can be
// left out, repeated or moved.
class FrameSealer {
 public:
  explicit FrameSealer(const core::coordinator::Bytes32& key) : key_(key) {}

  // Appends the seal of the frame that `out` holds from `from` to its end.
  void seal(ByteBuffer& out, std::size_t from);
  // Whether this is the seal of this frame, which is the next one.
  bool fits(std::string_view frame, std::string_view seal);

 private:
  core::coordinator::Bytes32 next(std::string_view frame);

  core::coordinator::Bytes32 key_;
  std::uint64_t number_ = 0;
};

struct FrameSeals {
  FrameSealer of_agent;
  FrameSealer of_coordinator;
};

}  // namespace regroup::runtime
