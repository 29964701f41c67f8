// The node's side of the talk on one connection of a session: bytes and the time go in, messages
// come out, and what has to be sent is put into a buffer.
//
// It knows no socket and no clock. A talk ends once; TalkEnd says why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_buffer.h"
#include "base/instant.h"
#include "core/coordinator/messages.h"
#include "runtime/session/frame_reader.h"
#include "runtime/session/pulse.h"
#include "runtime/session/session_opening.h"

namespace regroup::runtime {

struct TalkEnd {
  std::string why;
  bool refused = false;   // Coming back is useless.
  bool nonsense = false;  // The coordinator sent something that cannot be understood.
};

class SessionTalk {
 public:
  struct Settings {
    Duration heartbeat_limit = 5s;
    // A coordinator that has proven itself has served this node before. Then a server that proves
    // nothing has only taken its place for a moment, and its refusal does not last.
    bool was_served = false;
  };
  SessionTalk(std::optional<SessionProofs> proofs, std::optional<FrameSeals> seals,
              const Settings& settings, Instant now);

  // Has to be called before anything else is said. Sends our proof, if there is a secret, and these
  // messages.
  void introduce(const std::vector<core::coordinator::FromAgent>& introduction, ByteBuffer& out);
  void say(const core::coordinator::FromAgent& message, ByteBuffer& out);
  // Returns its number. Once answered() has reached it, the coordinator has heard all that was said
  // before.
  std::uint64_t ping(ByteBuffer& out);

  struct Heard {
    std::vector<core::coordinator::FromCoordinator> messages = {};  // All but Pong, in order.
    std::optional<TalkEnd> end = {};  // The talk has ended, after these messages.
  };
  // Consumes the whole frames at the front of `in`.
  Heard hear(ByteBuffer& in, Instant now);

  // To be called when next_deadline() has come, after what is there has been heard. Sends a ping,
  // or ends the talk with a coordinator that is silent.
  std::optional<TalkEnd> on_time(Instant now, ByteBuffer& out);
  Instant next_deadline() const { return pulse_.next(); }

  std::uint64_t answered() const { return answered_; }
  bool is_served() const { return served_; }            // On this connection or an earlier one.
  bool is_served_here() const { return served_here_; }  // On this connection.

 private:
  void hear(core::coordinator::FromCoordinator message, Heard& heard);
  void end_unproven(Heard& heard) const;

  std::optional<SessionProofs> proofs_;  // Empty once the coordinator has proven itself.
  std::optional<FrameSeals> seals_;
  FrameReader<core::coordinator::FromCoordinator> reader_;
  Pulse pulse_;
  bool served_;
  bool served_here_ = false;
  std::uint64_t pings_ = 0;
  std::uint64_t answered_ = 0;
};

}  // namespace regroup::runtime
