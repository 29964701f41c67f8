// Hosts the coordinators of all runs that meet at one port (core/coordinator), on the loop of the
// store host whose connections become their sessions.
//
// Sessions are strangers until they have said what run they belong to, and whoever breaks the rules
// of the protocol is closed, counted and logged; it harms nobody else. Who was silent is judged
// only after everything that lies in the sockets has been read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "io/loop.h"
#include "runtime/session_service.h"

namespace regroup::runtime {

struct CoordinatorCounters {
  std::uint64_t sessions = 0;  // Now.
  std::uint64_t sessions_ever = 0;
  std::uint64_t messages_in = 0;
  std::uint64_t messages_out = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t refused = 0;  // Sessions closed for what they said, did not say, or did not read.
};

class CoordinatorHost : public SessionService {
 public:
  // The loop and the keys must outlive it.
  static std::unique_ptr<CoordinatorHost> make(io::Loop& loop, KeyAccess& keys,
                                               const SessionLimits& limits = {});

  virtual CoordinatorCounters counters() const = 0;
  virtual std::vector<core::coordinator::RunStatus> status() const = 0;

  // Forgets every run and session; whoever owns the connections closes them.
  virtual void clear() = 0;
};

}  // namespace regroup::runtime
