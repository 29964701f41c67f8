// Hosts the coordinators of all runs that meet at one port (core/coordinator), on the loop of the
// store host whose connections become their sessions.
//
// A session is a stranger until it has said which run it belongs to. One that breaks the rules of
// the protocol is closed, counted and logged; that affects no other session. Which nodes are silent
// is judged only after everything in the sockets has been read.
#pragma once

#include <memory>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "core/run/run_status.h"
#include "io/loop/loop.h"
#include "runtime/coordinator/coordinator_counters.h"
#include "runtime/coordinator/session_service.h"
#include "runtime/session/session_secret.h"

namespace regroup::runtime {

class CoordinatorHost : public SessionService {
 public:
  // The loop and the keys must outlive it. With a secret (null: none) only agents that have it are
  // accepted, and runs are for nodes with a session only.
  static std::unique_ptr<CoordinatorHost> make(io::Loop& loop, KeyAccess& keys,
                                               const SessionLimits& limits = {},
                                               std::shared_ptr<const Secret> secret = nullptr);

  virtual CoordinatorCounters counters() const = 0;
  virtual Presence presence() const = 0;
  virtual std::vector<core::run::RunStatus> status() const = 0;

  // Forgets every run and session; the owner of the connections closes them.
  virtual void clear() = 0;
};

}  // namespace regroup::runtime
