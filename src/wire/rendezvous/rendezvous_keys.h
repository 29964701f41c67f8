// The keys of a run in its store; they are torchrun's, except the phases.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace regroup::wire {

// The shared state, as base64 text.
inline std::string state_key(const std::string& run_id) { return "torch.rendezvous." + run_id; }
// What it holds before the first node has joined. Reading a missing key would wait for it.
inline constexpr std::string_view kNoState = "Y2FuaW1hZGFt";

// Set when the run has left the phase.
inline std::string left_key(const std::string& run_id, std::string_view phase) {
  return state_key(run_id) + ".left/" + std::string(phase);
}

// The prefix of a round's own keys.
inline std::string round_prefix(const std::string& run_id, std::int64_t round) {
  return state_key(run_id) + "." + std::to_string(round);
}

}  // namespace regroup::wire
