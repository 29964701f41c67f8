// The talk on one connection of a session, as the node has it: bytes and the time go in, messages
// come out, and what is to be sent is put into a buffer.
//
// It knows no socket and no clock. A talk ends once; what led to it is in TalkEnd.
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
  bool nonsense = false;  // The coordinator said what cannot be understood.
};

class SessionTalk {
 public:
  struct Settings {
    Duration heartbeat_limit = 5s;
    // A coordinator has been proven and has served this node before. Then a server that proves
    // nothing is somebody who has taken its place for a moment, and no lasting refusal.
    bool was_served = false;
  };
  SessionTalk(std::optional<SessionProofs> proofs, std::optional<FrameSeals> seals,
              const Settings& settings, Instant now);

  // First of all, in front of everything that is said: our proof, if there is a secret, and these.
  void introduce(const std::vector<core::coordinator::FromAgent>& introduction, ByteBuffer& out);
  void say(const core::coordinator::FromAgent& message, ByteBuffer& out);
  // Its number. Once answered() has reached it, the coordinator has heard all that was said before.
  std::uint64_t ping(ByteBuffer& out);

  struct Heard {
    std::vector<core::coordinator::FromCoordinator> messages = {};  // All but Pong, in order.
    std::optional<TalkEnd> end = {};                                // Behind them.
  };
  // Takes the whole frames off `in`.
  Heard hear(ByteBuffer& in, Instant now);

  // When next_deadline() has come and all that was there has been heard: says that we live.
  std::optional<TalkEnd> on_time(Instant now, ByteBuffer& out);
  Instant next_deadline() const { return pulse_.next(); }

  std::uint64_t answered() const { return answered_; }
  bool is_served() const { return served_; }            // On this connection or before,
  bool is_served_here() const { return served_here_; }  // on this one.

 private:
  void hear(core::coordinator::FromCoordinator message, Heard& heard);
  void end_unproven(Heard& heard) const;

  std::optional<SessionProofs> proofs_;  // Until theirs has come.
  std::optional<FrameSeals> seals_;
  FrameReader<core::coordinator::FromCoordinator> reader_;
  Pulse pulse_;
  bool served_;
  bool served_here_ = false;
  std::uint64_t pings_ = 0;
  std::uint64_t answered_ = 0;
};

}  // namespace regroup::runtime
