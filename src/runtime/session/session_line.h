// One connection of a session, for as long as it lasts: the session's thread reads, anybody writes.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_buffer.h"
#include "core/coordinator/messages.h"
#include "io/net/client_socket.h"
#include "regroup/result.h"
#include "runtime/session/session_opening.h"

namespace regroup::runtime {

class SessionLine {
 public:
  explicit SessionLine(OpenedSession opened)
      : socket_(std::move(opened.socket)), proofs_(opened.proofs), seals_(opened.seals) {}

  // Until the introduction is sent, what is said waits for it. Later it waits for the peer, two
  // seconds at most; then the line is shut down, and receive() tells why.
  void say(const core::coordinator::FromAgent& message);

  // Once, in one write with what was said before it, which goes behind it, and our proof in front.
  void introduce(const std::vector<core::coordinator::FromAgent>& introduction);

  // The session's thread only.
  Result<std::size_t> receive(std::span<char> room, Instant deadline);

  // The session's thread only. Until the coordinator has proven that it has the secret, nothing
  // that it says is to be heeded, except that it refuses.
  bool awaits_proof() const { return proofs_.has_value(); }
  // Whether that was it: then it is awaited no longer.
  bool take_proof(const core::coordinator::FromCoordinator& message);

  // The session's thread only. Of the frames that come; null: they have none.
  FrameSealer* sealer() { return seals_ && !awaits_proof() ? &seals_->of_coordinator : nullptr; }

  // Ends what anybody waits for here. What has come may still be received.
  void shut_down() { socket_.shut_down(); }

 private:
  void append(const core::coordinator::FromAgent& message);
  void send();

  io::ClientSocket socket_;
  std::optional<SessionProofs> proofs_;  // Until theirs has come.
  std::mutex mutex_;                     // Guards what follows, and who writes.
  std::optional<FrameSeals> seals_;      // Ours under the mutex, theirs on the session's thread.
  bool introduced_ = false;
  std::vector<core::coordinator::FromAgent> meanwhile_;  // Said before it was.
  std::string unsent_;                                   // Why nothing can be said any more.
  ByteBuffer out_;
};

}  // namespace regroup::runtime
