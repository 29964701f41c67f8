// What goes wrong in a run with a coordinator, and when it stops.
#include <algorithm>

#include "sim/session/session_world.h"

namespace regroup::sim {

void SessionWorld::plan_next_fault() {
  if (plan_.between_faults == Duration{}) return;
  plan(dice_.between(Duration(1ms), plan_.between_faults * 2), [this] {
    if (stage_ != Stage::Storm) return;
    next_fault();
    plan_next_fault();
  });
}

void SessionWorld::crash(std::int32_t index) {
  if (!node(index).is_running()) return;
  totals_.crashes += 1;
  node(index).crash();
  luck(index).paused_until = now();
  luck(index).awaited = false;
  // Some come back at once, some later, and some not before the faults stop.
  const std::int64_t roll = dice_.between(0, 3);
  if (roll == 0) start_after(index, dice_.between(Duration(1ms), Duration(500ms)));
  if (roll >= 2) start_after(index, dice_.between(Duration(500ms), plan_.longest_fault * 2));
}

void SessionWorld::pause(std::int32_t index, Duration length) {
  if (!node(index).is_running()) return;
  totals_.pauses += 1;
  if (trace_.on())
    trace_.line(now(), short_name(node(index).id()), "stands still for " + seconds(length));
  // What was put off to the end of an earlier pause must not be overtaken.
  const Instant until = std::max(luck(index).paused_until, now() + length);
  luck(index).paused_until = luck(index).trouble_until = until;
  luck(index).awaited = false;
}

void SessionWorld::partition(std::int32_t index, Duration length) {
  if (links_.is_cut_off(index)) return;
  totals_.partitions += 1;
  if (trace_.on())
    trace_.line(now(), short_name(node(index).id()), "is cut off for " + seconds(length));
  links_.cut_off(index);
  luck(index).awaited = false;
  plan(length, [this, index, breaks = dice_.chance(0.4)] {
    if (!links_.is_cut_off(index)) return;
    trace_.line(now(), short_name(node(index).id()), "is no longer cut off");
    links_.reconnect(index, breaks);
    luck(index).trouble_until = now();
  });
}

void SessionWorld::kill_host() {
  if (!host_.is_up()) return;
  totals_.crashes += 1;
  trace_.line(now(), "host", "dies");
  const bool seen = dice_.chance(0.8);
  for (std::int32_t index = 0; index < count(); ++index) {
    const auto link = node(index).link();
    luck(index).awaited = seen && link && links_.works(*link) && luck(index).paused_until <= now();
  }
  for (const LinkId link : links_.all()) links_.lose_end(link, End::Host, seen);
  host_.die();
  others_.host_died(seen);
  host_paused_until_ = now();
  plan(dice_.chance(0.5) ? dice_.between(Duration(1ms), Duration(500ms))
                         : dice_.between(Duration(1ms), plan_.restart_delay),
       [this] {
         host_.start();
         others_.host_started();
       });
}

void SessionWorld::pause_host(Duration length) {
  if (!host_.is_up()) return;
  totals_.pauses += 1;
  trace_.line(now(), "host", "stands still for " + seconds(length));
  host_paused_until_ = host_trouble_until_ = std::max(host_paused_until_, now() + length);
}

// Some are longer than a node may be silent.
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
  const auto index = static_cast<std::int32_t>(dice_.between(0, count() + others_.count() - 1));
  if (index >= count()) return next_fault_of_other(index - count());
  const Duration length = dice_.chance(0.5)
                              ? dice_.between(Duration(10ms), plan_.rules.heartbeat_limit)
                              : dice_.between(Duration(10ms), plan_.longest_fault);
  switch (dice_.between(0, 11)) {
    case 0:
    case 1:
      crash(index);
      break;
    case 2:
      pause(index, length);
      break;
    case 3:
      partition(index, length);
      break;
    case 4:
      for (std::int32_t one = 0; one < count(); ++one)
        if (dice_.chance(0.5)) partition(one, length);
      for (std::int32_t one = 0; one < others_.count(); ++one)
        if (dice_.chance(0.5)) others_.cut_off(one, length);
      break;
    case 5:
    case 6:
    case 7: {
      const bool node_sees = dice_.chance(0.6);
      const bool host_sees = dice_.chance(0.6);
      const double many = dice_.chance(0.2) ? 0.7 : 0.0;
      for (const LinkId link : links_.all()) {
        if (links_.node_of(link) != index && !dice_.chance(many)) continue;
        trace_.line(now(), short_name(node(links_.node_of(link)).id()), "has a connection broken");
        luck(links_.node_of(link)).trouble_until = now();
        links_.break_off(link, node_sees, host_sees);
      }
      break;
    }
    case 8:
    case 9:
      kill_host();
      break;
    case 10:
      pause_host(length);
      break;
    default:
      if (!node(index).is_running()) break;
      if (!closed_early_ && dice_.chance(0.02)) {
        closed_early_ = true;
        totals_.closes += 1;
        node(index).leave(true);
        break;
      }
      totals_.leaves += 1;
      node(index).leave(false);
      start_after(index, length);
  }
}

// Nothing new goes wrong from here on. A node that stands still does so to the end of its pause.
void SessionWorld::stop_faults() {
  stage_ = Stage::Meeting;
  calm_since_ = now();
  trace_.line(now(), "world", "the faults stop");
  links_.calm_down();
  for (std::int32_t index = 0; index < count(); ++index) {
    if (links_.is_cut_off(index)) links_.reconnect(index, dice_.chance(0.5));
    luck(index).trouble_until = std::max(luck(index).trouble_until, now());
    if (!node(index).is_running() && !dice_.chance(plan_.ends_for_good))
      start_after(index, dice_.between(Duration(1ms), plan_.restart_delay));
  }
  others_.calm_down();
  plan(meeting_bound(plan_), [this] { must_have_met(); });
}

}  // namespace regroup::sim
