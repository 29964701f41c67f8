// What a node is waiting for, in one sentence for people.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/instant.h"
#include "core/rendezvous/settings.h"
#include "core/rendezvous/state.h"

namespace regroup::core::rendezvous {

// What people call a node: the name it claims, or its address.
std::string name_of(const State& state, const NodeId& node);

struct Wait {
  const State& state;
  const NodeId& self;
  const Settings& settings;
  Instant now;
  Instant give_up;
  std::optional<Instant> last_call_end;
  const std::vector<std::string>& expected;  // Names; empty where they are not known.
};

// "round 3: 5 of 6..8 nodes joined", the part that changes when something happens;
std::string describe_progress(const Wait& wait);
// "waiting for nodes: 5 of 6..8 here", the same in a few words;
std::string describe_briefly(const Wait& wait);
// When that is given up, or its time is over; empty: never.
std::optional<Instant> end_of_wait(const Wait& wait);
// "; last call ends in 12 s", the part that the clock changes.
std::string describe_limit(const Wait& wait);

}  // namespace regroup::core::rendezvous
