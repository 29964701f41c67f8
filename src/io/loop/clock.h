// The machine's clocks. Machines in `core` never see them: they are handed the instants.
#pragma once

#include <cstdint>

#include "base/instant.h"

namespace regroup::io {

Instant now();

// The instant `limit` from now; a limit too long for the clock means the end of time.
Instant deadline_after(Duration limit);

// The wall clock, in microseconds since 1970. For people and for stamps; it decides nothing.
std::int64_t utc_micros();

// Both clocks at one moment, to translate the one into the other.
struct BothClocks {
  Instant now;
  Duration since_1970;
};
BothClocks read_both_clocks();

}  // namespace regroup::io
