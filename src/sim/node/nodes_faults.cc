// What goes wrong in a run of whole nodes besides what does in all runs with a coordinator.
#include <array>

#include "sim/node/nodes_world.h"

namespace regroup::sim {

void NodesWorld::next_fault() {
  static constexpr std::array kFaults = {
      Fault::Crash,      Fault::Crash,      Fault::Pause,     Fault::CutOff,    Fault::CutOffMany,
      Fault::BreakLinks, Fault::BreakLinks, Fault::KillHost,  Fault::PauseHost, Fault::Signal,
      Fault::FailWorker, Fault::FailWorker, Fault::FailWorker};
  play_fault(static_cast<std::int32_t>(dice_.between(0, count() - 1)), kFaults);
}

void NodesWorld::own_fault(Fault fault, std::int32_t index, Duration) {
  if (!node(index).is_running() || luck(index).paused_until > now()) return;
  if (fault == Fault::Signal) return send_signal(index);
  node(index).fail_worker();
}

// A second signal kills the workers at once.
void NodesWorld::send_signal(std::int32_t index) {
  totals_.leaves += 1;
  const int number = dice_.chance(0.5) ? 15 : 2;
  if (dice_.chance(0.3)) {
    node(index).strike_worker(number);
    return later(index, now() + dice_.between(Duration{}, Duration(200ms)),
                 [this, index, number] { node(index).signal(number); });
  }
  node(index).signal(number);
  if (!node(index).is_running() || !dice_.chance(0.3)) return;
  later(index, now() + dice_.between(Duration{}, plan_.grace / 2),
        [this, index] { node(index).signal(15); });
}

bool NodesWorld::is_missing(std::int32_t index) const {
  return CoordinatedWorld::is_missing(index) && !luck(index).is_coming && !luck(index).stays_down;
}

void NodesWorld::calmed_down() {
  plan(meeting_bound(nodes_plan_), [this] { must_have_met(); });
  plan(ending_bound(nodes_plan_), [this] { must_have_ended(); });
}

}  // namespace regroup::sim
