// What goes wrong in a run of whole nodes, and when it stops.
#include <algorithm>

#include "sim/node/nodes_world.h"

namespace regroup::sim {

void NodesWorld::plan_next_fault() {
  if (plan_.session.between_faults == Duration{}) return;
  plan(dice_.between(Duration(1ms), plan_.session.between_faults * 2), [this] {
    if (stage_ != Stage::Storm) return;
    next_fault();
    plan_next_fault();
  });
}

void NodesWorld::crash(std::int32_t index) {
  if (!node(index).is_running()) return;
  totals_.crashes += 1;
  node(index).crash();
  luck(index).paused_until = now();
  luck(index).awaited = false;
  // Some come back at once, some later, and some not before the faults stop.
  const std::int64_t roll = dice_.between(0, 3);
  if (roll == 0) start_after(index, dice_.between(Duration(1ms), Duration(500ms)));
  if (roll >= 2)
    start_after(index, dice_.between(Duration(500ms), plan_.session.longest_fault * 2));
}

// A second one kills the workers at once.
void NodesWorld::send_signal(std::int32_t index) {
  if (!node(index).is_running() || luck(index).paused_until > now()) return;
  totals_.leaves += 1;
  node(index).signal(dice_.chance(0.5) ? 15 : 2);
  if (!node(index).is_running() || !dice_.chance(0.3)) return;
  later(index, now() + dice_.between(Duration{}, plan_.session.grace / 2),
        [this, index] { node(index).signal(15); });
}

void NodesWorld::pause(std::int32_t index, Duration length) {
  if (!node(index).is_running()) return;
  totals_.pauses += 1;
  if (trace_.on())
    trace_.line(now(), short_name(node(index).id()), "stands still for " + seconds(length));
  const Instant until = std::max(luck(index).paused_until, now() + length);
  luck(index).paused_until = luck(index).trouble_until = until;
  luck(index).awaited = false;
}

void NodesWorld::partition(std::int32_t index, Duration length) {
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

void NodesWorld::break_links(std::int32_t index) {
  const bool node_sees = dice_.chance(0.6);
  const bool host_sees = dice_.chance(0.6);
  const double many = dice_.chance(0.2) ? 0.7 : 0.0;
  for (const LinkId link : links_.all()) {
    if (links_.node_of(link) != index && !dice_.chance(many)) continue;
    trace_.line(now(), short_name(node(links_.node_of(link)).id()), "has a connection broken");
    luck(links_.node_of(link)).trouble_until = now();
    links_.break_off(link, node_sees, host_sees);
  }
}

void NodesWorld::kill_host() {
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
  host_paused_until_ = now();
  plan(dice_.chance(0.5) ? dice_.between(Duration(1ms), Duration(500ms))
                         : dice_.between(Duration(1ms), plan_.session.restart_delay),
       [this] { host_.start(); });
}

void NodesWorld::next_fault() {
  const auto index = static_cast<std::int32_t>(dice_.between(0, count() - 1));
  const Duration length = dice_.chance(0.5)
                              ? dice_.between(Duration(10ms), plan_.session.rules.heartbeat_limit)
                              : dice_.between(Duration(10ms), plan_.session.longest_fault);
  switch (dice_.between(0, 12)) {
    case 0:
    case 1:
      return crash(index);
    case 2:
      return pause(index, length);
    case 3:
      return partition(index, length);
    case 4:
      for (std::int32_t one = 0; one < count(); ++one)
        if (dice_.chance(0.5)) partition(one, length);
      return;
    case 5:
    case 6:
      return break_links(index);
    case 7:
      return kill_host();
    case 8:
      if (!host_.is_up()) return;
      totals_.pauses += 1;
      trace_.line(now(), "host", "stands still for " + seconds(length));
      host_paused_until_ = host_trouble_until_ = std::max(host_paused_until_, now() + length);
      return;
    case 9:
      return send_signal(index);
    default:
      // One of its workers fails by itself.
      if (node(index).is_running() && luck(index).paused_until <= now()) node(index).kill_worker();
  }
}

// Nothing new goes wrong from here on. A node that stands still does so to the end of its pause.
void NodesWorld::stop_faults() {
  stage_ = Stage::Meeting;
  calm_since_ = now();
  trace_.line(now(), "world", "the faults stop");
  links_.calm_down();
  for (std::int32_t index = 0; index < count(); ++index) {
    if (links_.is_cut_off(index)) links_.reconnect(index, dice_.chance(0.5));
    luck(index).trouble_until = std::max(luck(index).trouble_until, now());
    if (node(index).is_running() || luck(index).is_coming || luck(index).stays_down) continue;
    if (!dice_.chance(plan_.session.ends_for_good))
      start_after(index, dice_.between(Duration(1ms), plan_.session.restart_delay));
  }
  plan(meeting_bound(plan_), [this] { must_have_met(); });
  plan(ending_bound(plan_), [this] { must_have_ended(); });
}

}  // namespace regroup::sim
