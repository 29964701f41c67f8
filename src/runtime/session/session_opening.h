// The node's side of a secret: a connection that has become a session, and what has to be proven on
// it before anything that comes is heeded.
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

// What both sides have to say on one connection.
struct SessionProofs {
  core::coordinator::AgentProof ours;
  core::coordinator::CoordinatorProof theirs;

  // In front of everything else.
  void append_ours(ByteBuffer& out) const;
  // Whether the first message that came is what it has to be. Refused may come in its place.
  bool is_theirs(const core::coordinator::FromCoordinator& message) const;
};
// Of a server whose first message is another.
extern const char* const kNotProven;

struct OpenedSession {
  explicit OpenedSession(io::ClientSocket s) : socket(std::move(s)) {}

  io::ClientSocket socket;
  std::optional<SessionProofs> proofs = {};  // Empty: there is no secret,
  std::optional<FrameSeals> seals = {};      // nor any of these.
};

// Asks for the coordinator's challenge, if there is a secret (null: none), and waits for it.
// ErrorKind::Refused: trying again is useless. Connection, Timeout: it may help.
Result<OpenedSession> open_with_secret(io::ClientSocket socket, const Secret* secret,
                                       Instant deadline);

}  // namespace regroup::runtime
