// Between a store host and the host of the coordinators: connections that turn into sessions, and
// keys that stand for the shared state of a run with sessions. All on one loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "core/store/messages.h"
#include "io/net/connection.h"
#include "runtime/common/limits.h"

namespace regroup::runtime {

struct SessionLimits {
  std::size_t sessions = kSessions;
  std::size_t runs = kRuns;
  Duration hello = kHelloLimit;
  // Unrelated runs meet here, so none may have the name that all have who chose none. Where a node
  // of the run hosts the endpoint, that name does no harm.
  bool names_needed = false;
};

// A connection that is a session from now on. The owner of the connection passes on what it
// receives.
class SessionPeer {
 public:
  virtual ~SessionPeer() = default;
  virtual void bytes_came() = 0;  // Takes the whole frames off its input.
  virtual void closed() = 0;      // By the peer, or because drop() was called. The last call.
};

// The keys beside the sessions, for nodes that have none.
class KeyAccess {
 public:
  virtual ~KeyAccess() = default;
  // Valid until the next call. Empty: there is no such key.
  virtual std::string_view get(std::string_view key) = 0;
  // Clients that wait for it are answered at once.
  virtual void set(std::string_view key, std::string_view value) = 0;
};

class SessionService {
 public:
  virtual ~SessionService() = default;

  // One for every connection; if there are too many, it is told so and closed. `drop` ends the
  // connection and calls closed(); it may be called during any call of this room except open().
  virtual std::unique_ptr<SessionPeer> open(std::shared_ptr<io::Connection> connection,
                                            std::function<void()> drop) = 0;

  // To be called before a request of the store's own protocol is applied; cheap unless it is about
  // a run with sessions. If it is, the keys are updated to show how the run stands, and the result
  // is true: then after() must be called when the request has been applied, and passes what it
  // changed to the run.
  virtual bool before(const core::store::Request& request) = 0;
  virtual void after() = 0;
};

}  // namespace regroup::runtime
