// What goes wrong in a run with a coordinator besides what does in all such runs.
#include <array>

#include "sim/session/session_world.h"

namespace regroup::sim {

// Some of these faults last longer than a node may be silent.
void SessionWorld::next_fault_of_other(std::int32_t index) {
  const Duration length = dice_.chance(0.5)
                              ? dice_.between(Duration(10ms), Duration(5s))
                              : dice_.between(Duration(10ms), plan_.others.longest_fault);
  switch (dice_.between(0, 5)) {
    case 0:
    case 1:
      return others_.kill(index);
    case 2:
      return others_.pause(index, length);
    case 3:
    case 4:
      return others_.cut_off(index, length);
    default:
      if (closed_early_ || !dice_.chance(0.02)) return others_.leave(index, length);
      closed_early_ = true;
      totals_.closes += 1;
      others_.node(index).close();
  }
}

void SessionWorld::next_fault() {
  static constexpr std::array kFaults = {Fault::Crash,      Fault::Crash,      Fault::Pause,
                                         Fault::CutOff,     Fault::CutOffMany, Fault::BreakLinks,
                                         Fault::BreakLinks, Fault::BreakLinks, Fault::KillHost,
                                         Fault::KillHost,   Fault::PauseHost,  Fault::Leave};
  const auto index = static_cast<std::int32_t>(dice_.between(0, count() + others_.count() - 1));
  if (index >= count()) return next_fault_of_other(index - count());
  play_fault(index, kFaults);
}

void SessionWorld::cut_off_many(Duration length) {
  CoordinatedWorld::cut_off_many(length);
  for (std::int32_t one = 0; one < others_.count(); ++one)
    if (dice_.chance(0.5)) others_.cut_off(one, length);
}

// A node leaves.
void SessionWorld::own_fault(Fault, std::int32_t index, Duration length) {
  if (!node(index).is_running()) return;
  if (!closed_early_ && dice_.chance(0.02)) {
    closed_early_ = true;
    totals_.closes += 1;
    return node(index).leave(true);
  }
  totals_.leaves += 1;
  node(index).leave(false);
  start_after(index, length);
}

void SessionWorld::calmed_down() {
  others_.calm_down();
  plan(meeting_bound(plan_), [this] { must_have_met(); });
}

}  // namespace regroup::sim
