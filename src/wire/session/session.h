// The session protocol, for both ends: what an agent and its coordinator say to each other
// (core/coordinator/messages.h), as frames.
//
// A frame is a u32 length, then that many bytes: a u8 kind and its fields, little-endian; a text is
// a u32 length and its bytes. A kind that we do not know, and bytes after the last field that we
// know, come from a newer peer and are skipped. docs/protocol.md has the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "base/byte_buffer.h"
#include "core/coordinator/messages.h"
#include "wire/bytes/text_list.h"

namespace regroup::wire {

// The key that an agent checks for on a fresh store connection. A coordinator answers that it
// exists, and the connection is a session from the next byte on. PyTorch's servers answer that it
// does not.
inline constexpr std::string_view kSessionKey = "regroup/session/1";

// The largest size of a whole frame, its length included. A Report may be longer.
inline constexpr std::size_t kLargestFrame = 64 * 1024;
inline constexpr std::size_t kLargestReport = 64 * 1024 * 1024;

void append_frame(ByteBuffer& out, const core::coordinator::FromAgent& message);
void append_frame(ByteBuffer& out, const core::coordinator::FromCoordinator& message);

template <class Message>
struct WholeFrame {
  Message message;
  std::size_t size = 0;
};
// A frame of a kind that only a newer peer knows.
struct SkippedFrame {
  std::size_t size = 0;
};

template <class Message>
using ParsedFrame = std::variant<WholeFrame<Message>, SkippedFrame, NeedMore, Malformed>;

ParsedFrame<core::coordinator::FromAgent> parse_frame_from_agent(std::string_view bytes);
ParsedFrame<core::coordinator::FromCoordinator> parse_frame_from_coordinator(
    std::string_view bytes);

}  // namespace regroup::wire
