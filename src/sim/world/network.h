// What becomes of a message between a node and the store. It carries nothing itself; it only says
// when a message arrives, or that it never does.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "base/instant.h"
#include "sim/world/plan.h"

namespace regroup::sim {

class Network {
 public:
  Network(const Plan& plan, std::uint64_t seed);

  // When a request arrives: never, once, or twice; perhaps only after its sender has given it up.
  std::vector<Instant> request(std::int32_t node, Instant now);
  std::optional<Instant> answer(std::int32_t node, Instant now);
  std::optional<Instant> wake(std::int32_t node, Instant now);

  // A broken connection is often told at once, and else found out by waiting.
  bool breaks_loudly() { return dice_.chance(0.5); }
  Duration latency();

  void cut_off(std::int32_t node) { cut_off_.insert(node); }
  void reconnect(std::int32_t node) { cut_off_.erase(node); }
  void slow_store_until(Instant until) { slow_until_ = until; }

  // From now on everything arrives, quickly.
  void calm_down();

 private:
  Duration travel(Instant now);

  Weather weather_;
  Duration latest_;
  Dice dice_;
  std::set<std::int32_t> cut_off_;
  Instant slow_until_;
};

}  // namespace regroup::sim
