// The state as bytes, as every node of a real run writes and reads it.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "wire/rendezvous/rendezvous_state.h"

namespace regroup::sim {

inline std::string encoded(const core::rendezvous::State& state) {
  return wire::encode_state(state);
}

inline core::rendezvous::State decoded(std::string_view bytes) {
  auto state = wire::decode_state(bytes);
  CHECK(state.has_value());  // Only our own encoder writes here.
  return std::move(*state);
}

}  // namespace regroup::sim
