// The world's ill luck: what goes wrong besides single messages, and when it stops.
#include <fmt/core.h>

#include <algorithm>

#include "sim/world/world.h"

namespace regroup::sim {

void World::plan_next_fault() {
  const Duration average = plan_.weather.between_faults;
  if (average == Duration::zero()) return;
  events_.plan(
      {.at = now() + dice_.between(Duration(1ms), average * 2), .kind = EventKind::NextFault});
}

void World::kill(std::int32_t index, std::string_view how) {
  Node& node = nodes_[static_cast<std::size_t>(index)];
  if (!node.running()) return;
  totals_.crashes += 1;
  if (!how.empty()) trace_.line(now(), short_name(node.id()), how);
  node.crash();
  paused_until_[static_cast<std::size_t>(index)] = now();
  // Some come back at once, some later, and some not before the faults stop.
  const std::int64_t luck = dice_.between(0, 3);
  if (luck == 0) start_after(index, dice_.between(Duration(1ms), Duration(500ms)));
  if (luck >= 2) start_after(index, dice_.between(Duration(500ms), plan_.latest * 2));
}

void World::next_fault() {
  const auto index =
      static_cast<std::int32_t>(dice_.between(0, static_cast<std::int64_t>(nodes_.size()) - 1));
  Node& node = nodes_[static_cast<std::size_t>(index)];
  const Duration length = dice_.between(Duration(100ms), plan_.longest_fault);
  const auto say = [&](std::string_view text) {
    trace_.line(now(), short_name(node.id()), fmt::format("{} for {}", text, seconds(length)));
  };
  switch (dice_.between(0, 7)) {
    case 0:
      kill(index, {});
      break;
    case 1:
      dies_after_swap_.insert(index);
      break;
    case 2:
    case 3:
      if (!node.running()) break;
      totals_.pauses += 1;
      say("stands still");
      paused_until_[static_cast<std::size_t>(index)] = now() + length;
      break;
    case 4:
      totals_.partitions += 1;
      say("cannot reach the store");
      network_.cut_off(index);
      events_.plan({.at = now() + length, .kind = EventKind::PartitionEnds, .node = index});
      break;
    case 5:
      if (dice_.chance(0.5)) break;
      trace_.line(now(), "store", "answers everybody late for " + seconds(length));
      network_.slow_store_until(now() + length);
      break;
    case 6:
      if (plan_.clocks_in_step) break;
      trace_.line(now(), short_name(node.id()), "has its wall clock set");
      node.set_wall_clock(dice_.between(Duration(-30s), Duration(30s)));
      break;
    default:
      // torchrun has no word for leaving: its node is just gone.
      if (node.torchrun()) {
        kill(index, {});
      } else if (node.running()) {
        totals_.leaves += 1;
        node.leave(length);
      }
  }
}

// Nothing new goes wrong from here on. A node that stands still does so to the end of its pause,
// and what is on its way arrives when it was going to.
void World::stop_faults() {
  stage_ = Stage::Meeting;
  calm_since_ = now();
  trace_.line(now(), "world", "the faults stop");
  network_.calm_down();
  dies_after_swap_.clear();
  for (std::size_t index = 0; index < nodes_.size(); ++index) {
    if (!nodes_[index].running() && !dice_.chance(plan_.weather.ends_for_good))
      start_after(static_cast<std::int32_t>(index),
                  dice_.between(Duration(1ms), plan_.restart_delay));
  }
  events_.plan({.at = now() + meeting_bound(plan_), .kind = EventKind::MustHaveMet});
}

}  // namespace regroup::sim
