// Seals behind the frames of a session whose sides have proven that they share a secret.
//
// A proof alone says who is at the other end when it is made. Somebody in between could hand it on
// and then speak for himself; so every frame behind it carries a seal that only the two can make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/byte_buffer.h"
#include "core/coordinator/messages.h"

namespace regroup::runtime {

inline constexpr std::size_t kSealBytes = 16;

// Of one direction. Each frame has its number in the seal: none can be left out, said again, or
// said in another order.
class FrameSealer {
 public:
  explicit FrameSealer(const core::coordinator::Bytes32& key) : key_(key) {}

  // Behind the frame that stands in `out` from `from` to its end.
  void seal(ByteBuffer& out, std::size_t from);
  // Whether it is the next frame's.
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
