// What a store host asks whoever hosts the coordinators: connections that turn into sessions, and
// keys that stand for the shared state of a run with sessions.
#pragma once

#include <memory>
#include <string>

#include "core/store/keyspace.h"
#include "io/connection.h"

namespace regroup::runtime {

// A connection that is a session from now on. Whoever owns the connection passes on what it hears.
class SessionPeer {
 public:
  virtual ~SessionPeer() = default;  // The connection is gone.
  // Takes the whole frames off its input. False: close it (the reason was logged).
  virtual bool bytes_came() = 0;
  virtual void output_drained() = 0;
};

class SessionService {
 public:
  virtual ~SessionService() = default;

  // Null: there are too many.
  virtual std::unique_ptr<SessionPeer> open(std::shared_ptr<io::Connection> connection) = 0;

  // Around every request of the store's own protocol, cheap for those that are not about a run with
  // sessions. Before: the state is written into the keyspace if the request looks at it. After: if
  // the request has changed it there, the run has changed.
  virtual void before(const core::store::Request& request, core::store::Keyspace& keyspace) = 0;
  virtual void after(const core::store::Request& request, core::store::Keyspace& keyspace) = 0;
};

}  // namespace regroup::runtime
