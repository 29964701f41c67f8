// What goes wrong in every run with a coordinator, and when it stops.
#include <algorithm>

#include "sim/session/coordinated_world.h"

namespace regroup::sim {

void CoordinatedWorld::plan_next_fault() {
  if (plan_.between_faults == Duration{}) return;
  plan(dice_.between(Duration(1ms), plan_.between_faults * 2), [this] {
    if (stage_ != Stage::Storm) return;
    next_fault();
    plan_next_fault();
  });
}

void CoordinatedWorld::play_fault(std::int32_t index, std::span<const Fault> faults) {
  const Duration length = dice_.chance(0.5)
                              ? dice_.between(Duration(10ms), plan_.rules.heartbeat_limit)
                              : dice_.between(Duration(10ms), plan_.longest_fault);
  const auto last = static_cast<std::int64_t>(faults.size()) - 1;
  const Fault fault = faults[static_cast<std::size_t>(dice_.between(0, last))];
  switch (fault) {
    case Fault::Crash:
      return crash(index);
    case Fault::Pause:
      return pause(index, length);
    case Fault::CutOff:
      return cut_off(index, length);
    case Fault::CutOffMany:
      return cut_off_many(length);
    case Fault::BreakLinks:
      return break_links(index);
    case Fault::KillHost:
      return kill_host();
    case Fault::PauseHost:
      return pause_host(length);
    case Fault::Leave:
    case Fault::Signal:
    case Fault::FailWorker:
      return own_fault(fault, index, length);
  }
}

void CoordinatedWorld::crash(std::int32_t index) {
  if (!any(index).is_running()) return;
  totals_.crashes += 1;
  any(index).crash();
  luck(index).paused_until = now();
  luck(index).awaited = false;
  // Some come back at once, some later, and some not before the faults stop.
  const std::int64_t roll = dice_.between(0, 3);
  if (roll == 0) start_after(index, dice_.between(Duration(1ms), Duration(500ms)));
  if (roll >= 2) start_after(index, dice_.between(Duration(500ms), plan_.longest_fault * 2));
}

void CoordinatedWorld::pause(std::int32_t index, Duration length) {
  if (!any(index).is_running()) return;
  totals_.pauses += 1;
  if (trace_.on())
    trace_.line(now(), short_name(any(index).id()), "stands still for " + seconds(length));
  // What was put off to the end of an earlier pause must not be overtaken.
  const Instant until = std::max(luck(index).paused_until, now() + length);
  luck(index).paused_until = luck(index).fault_until = luck(index).trouble_until = until;
  luck(index).awaited = false;
}

void CoordinatedWorld::cut_off(std::int32_t index, Duration length) {
  if (links_.is_cut_off(index)) return;
  totals_.partitions += 1;
  if (trace_.on())
    trace_.line(now(), short_name(any(index).id()), "is cut off for " + seconds(length));
  links_.cut_off(index);
  luck(index).awaited = false;
  plan(length, [this, index, breaks = dice_.chance(0.4)] {
    if (!links_.is_cut_off(index)) return;
    trace_.line(now(), short_name(any(index).id()), "is no longer cut off");
    links_.reconnect(index, breaks);
    luck(index).fault_until = luck(index).trouble_until = now();
  });
}

void CoordinatedWorld::cut_off_many(Duration length) {
  for (std::int32_t one = 0; one < count(); ++one)
    if (dice_.chance(0.5)) cut_off(one, length);
}

void CoordinatedWorld::break_links(std::int32_t index) {
  const bool node_sees = dice_.chance(0.6);
  const bool host_sees = dice_.chance(0.6);
  const double many = dice_.chance(0.2) ? 0.7 : 0.0;
  for (const LinkId link : links_.all()) {
    const std::int32_t node = links_.node_of(link);
    if (node != index && !dice_.chance(many)) continue;
    trace_.line(now(), short_name(any(node).id()), "has a connection broken");
    luck(node).fault_until = luck(node).trouble_until = now();
    links_.break_off(link, node_sees, host_sees);
  }
}

void CoordinatedWorld::kill_host() {
  if (!host_.is_up()) return;
  totals_.crashes += 1;
  trace_.line(now(), "host", "dies");
  const bool seen = dice_.chance(0.8);
  for (std::int32_t index = 0; index < count(); ++index) {
    const auto link = any(index).link();
    luck(index).awaited = seen && link && links_.works(*link) && luck(index).paused_until <= now();
  }
  for (const LinkId link : links_.all()) links_.lose_end(link, End::Host, seen);
  host_.die();
  host_died(seen);
  host_paused_until_ = now();
  plan(dice_.chance(0.5) ? dice_.between(Duration(1ms), Duration(500ms))
                         : dice_.between(Duration(1ms), plan_.restart_delay),
       [this] {
         start_host();
         host_started();
       });
}

void CoordinatedWorld::pause_host(Duration length) {
  if (!host_.is_up()) return;
  totals_.pauses += 1;
  trace_.line(now(), "host", "stands still for " + seconds(length));
  host_paused_until_ = host_trouble_until_ = std::max(host_paused_until_, now() + length);
}

// Nothing new goes wrong from here on. A node that stands still does so to the end of its pause.
void CoordinatedWorld::stop_faults() {
  stage_ = Stage::Meeting;
  calm_since_ = now();
  trace_.line(now(), "world", "the faults stop");
  links_.calm_down();
  for (std::int32_t index = 0; index < count(); ++index) {
    if (links_.is_cut_off(index)) links_.reconnect(index, dice_.chance(0.5));
    luck(index).fault_until = luck(index).trouble_until =
        std::max(luck(index).trouble_until, now());
    if (is_missing(index) && !dice_.chance(plan_.ends_for_good))
      start_after(index, dice_.between(Duration(1ms), plan_.restart_delay));
  }
  calmed_down();
}

}  // namespace regroup::sim
