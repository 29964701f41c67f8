// Makes messages of the bytes that come on a session: one whole frame after the other, each behind
// its seal once the peer has proven itself. Every side that reads a session reads it with this.
//
//   FrameReader<FromCoordinator> reader;              // One for each connection.
//   in.commit(received);
//   for (;;) {
//     auto frame = reader.next(in, {.sealer = sealer, .from_stranger = awaits_proof});
//     if (auto* whole = std::get_if<wire::WholeFrame<FromCoordinator>>(&frame)) ...
//     NeedMore: receive some more.   SkippedFrame: go on.   Malformed: close the connection.
//   }
//
// It knows neither sockets nor proofs, and the bytes belong to the caller. What is expected of a
// frame is said for each: the message before it may have been the proof that changes it.
#pragma once

#include <cstddef>

#include "base/byte_buffer.h"
#include "runtime/session/session_seal.h"
#include "wire/session/session.h"

namespace regroup::runtime {

struct ExpectedFrame {
  FrameSealer* sealer = nullptr;  // Of the peer; null: its frames have no seal.
  // The peer has yet to prove itself. Nobody has to keep much for it, so a frame that is longer
  // than wire::kLargestFrame is malformed, a report too.
  bool from_stranger = false;
};

// Message: core::coordinator::FromAgent or core::coordinator::FromCoordinator.
template <class Message>
class FrameReader {
 public:
  // Takes the first frame, with its seal, off `in`. NeedMore and Malformed take nothing. A seal
  // that does not fit is Malformed, too. It is cheap to ask again before enough has come: a long
  // frame is not parsed with every piece of it.
  wire::ParsedFrame<Message> next(ByteBuffer& in, const ExpectedFrame& expected = {});

 private:
  std::size_t needs_ = 0;  // It is useless to parse fewer bytes.
};

}  // namespace regroup::runtime
