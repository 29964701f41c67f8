// The machine's monotonic clock. Machines in `core` never see it: they are handed the instants.
#pragma once

#include "base/instant.h"

namespace regroup::io {

Instant now();

// The instant `limit` from now; a limit too long for the clock means the end of time.
Instant deadline_after(Duration limit);

}  // namespace regroup::io
