// Makes messages of the bytes that come on a session: one whole frame after the other, each with
// its seal once the peer has proven itself. Both sides of a session read it with this.
//
//   FrameReader<FromCoordinator> reader;              // One for each connection.
//   in.commit(received);
//   for (;;) {
//     auto frame = reader.next(in, {.sealer = sealer, .from_stranger = awaits_proof});
//     if (auto* whole = std::get_if<wire::WholeFrame<FromCoordinator>>(&frame)) ...
//     NeedMore: receive some more.   SkippedFrame: go on.   Malformed: close the connection.
//   }
//
// It knows neither sockets nor proofs, and the bytes belong to the caller. The caller says for each
// frame what it expects, because the frame before it may have been the proof.
#pragma once

#include <cstddef>

#include "base/byte_buffer.h"
#include "runtime/session/session_seal.h"
#include "wire/session/session.h"

namespace regroup::runtime {

struct ExpectedFrame {
  FrameSealer* sealer = nullptr;  // The peer's; null: its frames have no seal.
  // The peer has yet to prove itself. It cannot make us keep much: a frame that is longer than
  // wire::kLargestFrame is malformed, even if it is a report.
  bool from_stranger = false;
};

// Message: core::coordinator::FromAgent or core::coordinator::FromCoordinator.
template <class Message>
class FrameReader {
 public:
  // Consumes the first frame of `in`, with its seal. NeedMore and Malformed consume nothing. A
  // wrong seal is Malformed, too. Calling this again before enough has come is cheap: a long frame
  // is not parsed anew with every piece of it.
  wire::ParsedFrame<Message> next(ByteBuffer& in, const ExpectedFrame& expected = {});

 private:
  std::size_t needs_ = 0;  // With fewer bytes than this there is no whole frame.
};

}  // namespace regroup::runtime
