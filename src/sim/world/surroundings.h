// What a simulated node can do to the world around it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/instant.h"
#include "sim/world/invariants.h"
#include "sim/world/store.h"
#include "sim/world/trace.h"

namespace regroup::sim {

class Surroundings {
 public:
  virtual ~Surroundings() = default;

  virtual Instant now() const = 0;  // World time; a node must put it through its own clock.

  // Ends in the node's on_answer() or on_overdue(), whichever comes first.
  virtual void ask(std::shared_ptr<const Request> request) = 0;
  virtual void announce(std::int32_t node, std::string phase) = 0;
  // Ends in on_wake(). With a phase, that may be earlier: when a node announces its end.
  virtual void wake_at(std::int32_t node, std::int64_t process, std::uint64_t wait, Instant at,
                       const std::string& phase) = 0;
  // Another process of this machine starts after this.
  virtual void start_after(std::int32_t node, Duration delay) = 0;

  // Some other member of the round that this node believes in is gone: its workers will feel it.
  virtual bool peers_gone(std::int32_t node) const = 0;

  virtual Invariants& invariants() = 0;
  virtual const Trace& trace() const = 0;
};

}  // namespace regroup::sim
