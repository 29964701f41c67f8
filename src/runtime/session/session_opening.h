// The node's side of a secret: a connection that has become a session, and what has to be proven on
// it before anything that comes is believed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/byte_buffer.h"
#include "core/coordinator/messages.h"
#include "io/net/client_socket.h"
#include "regroup/result.h"
#include "runtime/session/session_secret.h"

namespace regroup::runtime {

// The proofs of both sides, for one connection.
struct SessionProofs {
  core::coordinator::AgentProof ours;
  core::coordinator::CoordinatorProof theirs;

  // Has to be sent before everything else.
  void append_ours(ByteBuffer& out) const;
  // Whether the first message that came is the coordinator's proof. Refused may come in its place.
  bool is_theirs(const core::coordinator::FromCoordinator& message) const;
};
// The error if the first message is neither.
extern const char* const kNotProven;

struct OpenedSession {
  explicit OpenedSession(io::ClientSocket s) : socket(std::move(s)) {}

  io::ClientSocket socket;
  // Both are empty if there is no secret.
  std::optional<SessionProofs> proofs = {};
  std::optional<FrameSeals> seals = {};
};

// If there is a secret (null: there is none), asks for the coordinator's challenge and waits for
// it. ErrorKind::Refused: trying again is useless. After Connection and Timeout it may help.
Result<OpenedSession> open_with_secret(io::ClientSocket socket, const Secret* secret,
                                       Instant deadline);

}  // namespace regroup::runtime
