// Heartbeats: a worker must beat within a limit that it chose itself.
//
// Pure. The host reads what each worker has stored just before it asks which of them are silent.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/instant.h"

namespace regroup::core::watchdog {

// What a worker has stored.
struct Beat {
  Instant last;
  Duration limit{};  // Zero or less: it is not watched, or not any more.
};

struct Silent {
  std::size_t worker = 0;
  Duration silent_for{};
  Duration limit{};
};

struct BeatsVerdict {
  std::vector<Silent> silent;
  std::optional<Instant> next_deadline;  // Of the others. Empty: no other worker is watched.
};

// The beats by worker. Exactly at the limit is still in time.
BeatsVerdict judge(const std::vector<Beat>& beats, Instant now);

}  // namespace regroup::core::watchdog
