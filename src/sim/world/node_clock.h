// One machine's two clocks. They start anywhere, run a little too fast or too slow, and the wall
// clock may be set while the run goes on. The world's own time is what neither of them shows.
#pragma once

#include <cstdint>

#include "base/instant.h"
#include "core/rendezvous/executor.h"

namespace regroup::sim {

class NodeClock {
 public:
  NodeClock() = default;
  NodeClock(Duration boot, Duration wall_offset, std::int64_t drift_ppm)
      : boot_(boot), wall_offset_(wall_offset), drift_ppm_(drift_ppm) {}

  core::rendezvous::Now read(Instant world) const {
    const Duration runs = drifted(world.since_start);
    const Duration utc = kEpoch + wall_offset_ + runs;
    return {.instant = Instant{boot_ + runs}, .utc = {utc.count() / 1000}};
  }

  // The first moment of the world at which this node's monotonic clock shows at least `own`.
  Instant world_time_of(Instant own) const {
    const double runs = static_cast<double>((own.since_start - boot_).count());
    const double scale = 1.0 + static_cast<double>(drift_ppm_) * 1e-6;
    Instant world{Duration(static_cast<Duration::rep>(runs / scale) - 2)};
    while (read(world).instant < own) world = world + 1ns;
    return world;
  }

  void set_wall_clock(Duration by) { wall_offset_ += by; }

 private:
  static constexpr Duration kEpoch = std::chrono::hours(24 * 365 * 55);  // Some day in 2024.

  Duration drifted(Duration time) const {
    return time + Duration(time.count() / 1000 * drift_ppm_ / 1000);
  }

  Duration boot_{};
  Duration wall_offset_{};
  std::int64_t drift_ppm_ = 0;
};

}  // namespace regroup::sim
