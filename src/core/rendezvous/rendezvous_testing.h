// What the tests of this room share.
#pragma once

#include <string>
#include <vector>

#include "core/rendezvous/decide.h"

namespace regroup::core::rendezvous {

inline NodeId node(const std::string& name) { return {.address = name, .pid = 1, .local_id = 0}; }

inline Claim claim(const std::string& name) { return {.name = name, .wish = {}, .held = {}}; }

inline Instant at(Duration since_start) { return {since_start}; }

inline Settings between(std::int64_t min, std::int64_t max) {
  Settings settings;
  settings.run_id = "run";
  settings.min_nodes = min;
  settings.max_nodes = max;
  return settings;
}

inline Actor actor(const std::string& name, std::int64_t utc = 1'000'000) {
  return {.node = node(name), .claim = claim(name), .utc = Stamp{utc}};
}

// An open round with these nodes in it.
inline State joined_by(const std::vector<std::string>& names, const Settings& settings) {
  State state;
  for (const std::string& name : names)
    state = apply(std::move(state), Action::AddToParticipants, actor(name), settings);
  return state;
}

}  // namespace regroup::core::rendezvous
