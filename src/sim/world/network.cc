#include "sim/world/network.h"

#include <algorithm>

namespace regroup::sim {

Network::Network(const Plan& plan, std::uint64_t seed)
    : weather_(plan.weather), latest_(plan.latest), dice_(seed) {}

std::vector<Instant> Network::request(std::int32_t node, Instant now) {
  std::vector<Instant> arrivals;
  if (cut_off_.contains(node)) return arrivals;
  if (!dice_.chance(weather_.lose_request)) arrivals.push_back(now + travel(now));
  if (dice_.chance(weather_.double_request)) arrivals.push_back(now + travel(now));
  return arrivals;
}

std::optional<Instant> Network::answer(std::int32_t node, Instant now) {
  if (dice_.chance(weather_.lose_answer) || cut_off_.contains(node)) return std::nullopt;
  return now + travel(now);
}

std::optional<Instant> Network::wake(std::int32_t node, Instant now) {
  if (dice_.chance(weather_.lose_wake) || cut_off_.contains(node)) return std::nullopt;
  if (dice_.chance(weather_.late_wake)) return now + dice_.between(Duration(1ms), latest_);
  return now + travel(now);
}

Duration Network::latency() { return dice_.between(200us, 3ms); }

void Network::calm_down() {
  weather_ = {};
  cut_off_.clear();
  slow_until_ = {};
}

Duration Network::travel(Instant now) {
  Duration time = latency();
  if (dice_.chance(weather_.very_late)) {
    time = dice_.between(Duration(1s), latest_);
  } else if (dice_.chance(weather_.slow)) {
    time = dice_.between(Duration(1ms), Duration(1s));
  }
  if (now < slow_until_) time = std::max(time, dice_.between(Duration(1ms), latest_));
  return time;
}

}  // namespace regroup::sim
