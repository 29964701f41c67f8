// The pauses between one try and the next: longer each time, up to a limit, and different for each
// of those that wait for the same server, so that they do not come back all at once.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/random.h"
#include "io/loop/clock.h"

namespace regroup::runtime {

class Backoff {
 public:
  Backoff(Duration first, Duration most) : pause_(first), most_(most) {}

  // From half to one and a half times as long as the limit says.
  Duration next() {
    const Duration pause = pause_;
    pause_ = std::min<Duration>(pause_ * 3 / 2, most_);
    return std::chrono::duration_cast<Duration>(pause * (0.5 + jitter_.fraction()));
  }

 private:
  Duration pause_;
  Duration most_;
  SeededRandom jitter_{static_cast<std::uint64_t>(io::now().since_start.count()) ^
                       static_cast<std::uint64_t>(::getpid()) << 32};
};

}  // namespace regroup::runtime
