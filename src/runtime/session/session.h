// A node's session with the coordinator of its run, on the agent's loop: it hands on what is
// pushed, says that the node lives, and comes back when the connection is lost.
//
// Lives on the loop's thread, and is called from there; nothing here blocks. Only connect() runs
// elsewhere. Nothing here decides: what came is handed on, in order.
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
  // A greeted connection that has become a session. May block: it is called again and again while
  // the connection is lost, one at a time, on a thread of its own, and must own all that it uses.
  // ErrorKind::Refused counts as a lasting Refused; after all else it is called again.
  std::function<Result<OpenedSession>()> connect;
  // What is said first on every connection: Hello, and what of the things said since still waits
  // for its answer.
  std::function<std::vector<core::coordinator::FromAgent>()> introduction;
  // Every message but Pong, in order. A lasting Refused is the last; that the coordinator has not
  // proven itself is one, too. These calls may say() something, but must not end the session.
  std::function<void(core::coordinator::FromCoordinator)> on_message;
  // The connection is lost, and another is being looked for. That there is another is heard by its
  // Welcome.
  std::function<void(const std::string& why)> on_lost = {};
  // Three pings in it; a coordinator of whom nothing is heard for so long is lost. What a Welcome
  // says counts from then on: the nodes of a run agree on one.
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
  io::Timer timer_;  // Of the talk; while it is lost, until the next try.
  io::Timer flush_limit_;
  std::shared_ptr<io::Connection> connection_;  // Null while it is lost,
  std::optional<SessionTalk> talk_;             // and so is this.
  Instant taken_up_;                            // When this connection was.
  std::optional<Instant> unsent_since_;         // The socket takes no more.
  struct Flush {
    std::uint64_t ping;
    std::function<void()> done;
  };
  std::optional<Flush> flush_;
  bool was_served_ = false;  // By a coordinator that was believed.
  std::string refusal_;      // What was told last.
  std::string complaint_;
  Backoff pauses_ = first_pauses();
};

}  // namespace regroup::runtime
