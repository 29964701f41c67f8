// A node's session with the coordinator of its run, on a thread of its own: it reads what is
// pushed, says that the node lives, and comes back when the connection is lost.
//
// All calls from any thread. Nothing here decides: what came is handed on, in order.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/instant.h"
#include "core/coordinator/messages.h"
#include "io/client_socket.h"
#include "regroup/result.h"

namespace regroup::runtime {

struct SessionOptions {
  // A greeted connection that has become a session. Blocks for a few seconds at most; called again
  // and again while the connection is lost.
  std::function<Result<io::ClientSocket>()> connect;
  // What is said first on every connection: Hello, and what of the things said since still waits
  // for its answer. On the session's thread.
  std::function<std::vector<core::coordinator::FromAgent>()> introduction;
  // On the session's thread: every message but Pong, in order; `lost` and `found` when the
  // connection goes away and is there again.
  std::function<void(core::coordinator::FromCoordinator)> on_message;
  std::function<void(const std::string& why)> on_lost = {};
  Duration heartbeat_limit = 5s;  // Three pings in it; a coordinator that answers none is lost.
};

class Session {
 public:
  // The first connection is there; the introduction is sent at once.
  static Result<std::unique_ptr<Session>> start(io::ClientSocket first, SessionOptions options);
  virtual ~Session() = default;  // Closes; no call of the options comes afterwards.

  // At once, on the caller's thread. While the connection is lost it is dropped: introduction()
  // says what matters again.
  virtual void say(const core::coordinator::FromAgent& message) = 0;

  // All that was said is on its way (or the connection is lost); at most `limit` long.
  virtual void flush(Duration limit) = 0;
};

}  // namespace regroup::runtime
