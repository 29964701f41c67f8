// A node's session with the coordinator of its run, on a thread of its own: it reads what is
// pushed, says that the node lives, and comes back when the connection is lost.
//
// Nothing here decides: what came is handed on, in order. The calls of the options come without a
// lock held, so that they may say() something; but they must not flush(), nor end the session.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/coordinator/messages.h"
#include "regroup/result.h"
#include "regroup/time.h"
#include "runtime/session/session_opening.h"

namespace regroup::runtime {

struct SessionOptions {
  // A greeted connection that has become a session. May block, and is called again and again while
  // the connection is lost, each time on a thread of its own, one at a time. It must own all that
  // it uses: a call that is under way when the session ends is not waited for, and what it brings
  // is closed. ErrorKind::Refused counts as a lasting Refused; after all else it is called again.
  std::function<Result<OpenedSession>()> connect;
  // What is said first on every connection: Hello, and what of the things said since still waits
  // for its answer. On the session's thread. What is said while it is asked for goes out behind it,
  // so it may be said twice, but is never lost.
  std::function<std::vector<core::coordinator::FromAgent>()> introduction;
  // On the session's thread: every message but Pong, in order. A lasting Refused is the last; that
  // the coordinator has not proven itself is one, too.
  std::function<void(core::coordinator::FromCoordinator)> on_message;
  // On the session's thread: the connection is lost, and another is being looked for. Once for each
  // that is lost; that there is another is heard by its Welcome.
  std::function<void(const std::string& why)> on_lost = {};
  // Three pings in it; a coordinator of whom nothing is heard for so long is lost. What a Welcome
  // says counts from then on: the nodes of a run agree on one.
  Duration heartbeat_limit = 5s;
};

// All calls from any thread.
class Session {
 public:
  // The first connection is there; the introduction is sent at once.
  static Result<std::unique_ptr<Session>> start(OpenedSession first, SessionOptions options);
  // Closes, at once. But for a connect() that is under way, no call of the options comes
  // afterwards.
  virtual ~Session() = default;

  // At once, on the caller's thread. While the connection is lost it is dropped: introduction()
  // says what matters again. A coordinator that does not take it within two seconds is lost.
  virtual void say(const core::coordinator::FromAgent& message) = 0;

  // The coordinator has heard all that was said (or the connection is lost); at most `limit` long.
  virtual void flush(Duration limit) = 0;
};

}  // namespace regroup::runtime
