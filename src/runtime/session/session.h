// A node's session with the coordinator of its run, on the agent's loop: it hands on what the
// coordinator pushes, sends signs of life, and connects again when the connection is lost.
//
// Lives on the loop's thread, and is called from there; nothing here blocks. Only connect() runs
// on another thread. Nothing here decides: messages are handed on in the order in which they come.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/instant.h"
#include "core/coordinator/messages.h"
#include "io/loop/loop.h"
#include "io/net/connection.h"
#include "regroup/result.h"
#include "runtime/common/backoff.h"
#include "runtime/common/helper.h"
#include "runtime/session/session_opening.h"
#include "runtime/session/session_talk.h"

namespace regroup::runtime {

struct SessionOptions {
  // Opens a connection that has become a session. It may block: while the connection is lost it is
  // called again and again, one call at a time, on a thread of its own. It must own all that it
  // uses. ErrorKind::Refused counts as a lasting Refused; after any other error it is called again.
  std::function<Result<OpenedSession>()> connect;
  // What is said first on every connection: Hello, and whatever still waits for an answer.
  std::function<std::vector<core::coordinator::FromAgent>()> introduction;
  // Gets every message but Pong, in order. A lasting Refused is the last one; a coordinator that
  // has not proven itself counts as that. These calls may say() something, but must not end the
  // session.
  std::function<void(core::coordinator::FromCoordinator)> on_message;
  // The connection is lost, and the session tries to connect again. Welcome tells that it has.
  std::function<void(const std::string& why)> on_lost = {};
  // A coordinator that is silent for this long is lost; three pings are sent in that time. A
  // Welcome replaces it with the limit of the run.
  Duration heartbeat_limit = 5s;
};

// What its owner needs of a session. Tests play another one, without a socket.
class NodeSession {
 public:
  virtual ~NodeSession() = default;

  // While the connection is lost it is dropped: introduction() says again what matters.
  virtual void say(const core::coordinator::FromAgent& message) = 0;

  // `done` is called once: the coordinator has heard all that was said, or the connection is lost,
  // or the limit has passed. Not from inside this call.
  virtual void flush(Duration limit, std::function<void()> done) = 0;
};

class Session final : public NodeSession, private io::ConnectionOwner {
 public:
  // The first connection is there; the introduction is sent at once.
  Session(io::Loop& loop, OpenedSession first, SessionOptions options);
  ~Session() override;  // Closes, at once. No call of the options comes afterwards.
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // A coordinator that takes nothing for kSayLimit is lost.
  void say(const core::coordinator::FromAgent& message) override;
  void flush(Duration limit, std::function<void()> done) override;

 private:
  void bytes_came() override;
  void output_drained() override { unsent_since_.reset(); }
  void closed(const std::string& reason) override { lose({.why = reason}); }

  void take_up(OpenedSession opened);
  void send();
  void arm();
  void look();
  void lose(const TalkEnd& end);
  void come_back_later();
  void come_back(Result<OpenedSession> opened);
  void finish_flush();
  static Backoff first_pauses() { return {20ms, 1s}; }

  io::Loop& loop_;
  const SessionOptions options_;
  Helper helper_;
  io::Timer timer_;  // For the talk's deadlines; while the connection is lost, for the next try.
  io::Timer flush_limit_;
  std::shared_ptr<io::Connection> connection_;  // Null while the connection is lost;
  std::optional<SessionTalk> talk_;             // empty at the same times.
  Instant taken_up_;                            // When this connection began.
  std::optional<Instant> unsent_since_;         // Since when the socket takes no more.
  struct Flush {
    std::uint64_t ping;
    std::function<void()> done;
  };
  std::optional<Flush> flush_;
  bool was_served_ = false;  // A coordinator that was believed has served this node.
  std::string refusal_;      // The last one that was told,
  std::string complaint_;    // and the last one that was logged: the same is not repeated.
  Backoff pauses_ = first_pauses();
};

}  // namespace regroup::runtime
