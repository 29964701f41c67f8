// Tells people what a join waits for: a line when it changes and every ten seconds, and a few words
// that are always up to date. Used by one thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/instant.h"
#include "regroup/rendezvous.h"

namespace regroup::runtime {

class WaitLines {
 public:
  explicit WaitLines(const RendezvousParameters& parameters)
      : on_status_(parameters.on_status), on_wait_(parameters.on_wait) {}

  // A wait begins.
  void begin(Instant now);

  struct Wait {
    std::string what;              // "round 3: 5 of 6..8 nodes joined"
    std::string limit;             // "; gives up in 4m10s (join_timeout)"
    std::string brief;             // "waiting for nodes: 5 of 6..8 here"
    std::optional<Instant> until;  // When that is over; none: never.
  };
  void tell(Instant now, const Wait& wait);

 private:
  const std::function<void(const std::string&)> on_status_;
  const std::function<void(const RendezvousWait&)> on_wait_;
  Instant began_;
  Instant last_said_;
  std::string said_;
  std::string shown_;
  std::optional<Instant> shown_until_;
};

}  // namespace regroup::runtime
