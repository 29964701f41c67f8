#include "runtime/coordinator/coordinator_counters.h"

namespace regroup::runtime {

std::string describe(const CoordinatorCounters& c, const Presence& present) {
  const auto n = [](std::uint64_t number) { return std::to_string(number); };
  std::string text = "sessions " + n(c.sessions) + " now, " + n(c.sessions_ever) +
                     " ever; runs under way " + n(present.runs) + ", nodes " + n(present.nodes);
  for (const core::run::CounterRow& row : core::run::kCounters)
    if (*row.before != 0) text += row.before + n(c.*row.counter) + row.after;
  return text;
}

}  // namespace regroup::runtime
