#include "sim/node/nodes_world.h"

#include <algorithm>
#include <utility>

namespace regroup::sim {

NodesWorld::NodesWorld(const Options& options, Trace trace)
    : options_(options),
      plan_(make_nodes_plan(options)),
      trace_(std::move(trace)),
      dice_(plan_.session.seed ^ 0x40de),
      links_(agenda_, *this,
             {.slow = plan_.session.slow, .slowest = plan_.session.rules.heartbeat_limit / 2},
             dice_.seed()),
      invariants_(plan_.session),
      host_(plan_.session, options.broken, agenda_, links_, invariants_, trace_, *this),
      luck_(plan_.session.nodes.size()) {
  NodeSurroundings& here = *this;
  for (std::size_t index = 0; index < plan_.session.nodes.size(); ++index)
    nodes_.emplace_back(plan_, static_cast<std::int32_t>(index), options.broken, here);
}

Report NodesWorld::run() {
  if (trace_.on()) trace_.line(now(), "world", describe(plan_));
  plan(dice_.between(Duration{}, Duration(1s)), [this] { host_.start(); });
  for (std::int32_t index = 0; index < count(); ++index)
    start_after(index, plan_.session.nodes[static_cast<std::size_t>(index)].starts);
  plan(plan_.session.chaos, [this] {
    if (stage_ == Stage::Storm) stop_faults();
  });
  plan_next_fault();
  while (stage_ != Stage::Over && !invariants_.violation() && !agenda_.empty()) {
    Happening happening = agenda_.next();
    if (put_off(happening)) continue;
    happening.act();
    totals_.steps += 1;
    if (stage_ == Stage::Storm && options_.steps && totals_.steps >= *options_.steps) stop_faults();
    if (stage_ == Stage::Ending && all_are_gone()) must_have_ended();
  }
  if (invariants_.violation()) trace_.line(now(), "world", "WRONG: " + *invariants_.violation());
  totals_.runs = 1;
  totals_.virtual_time = now() - Instant{};
  totals_.seals = invariants_.seals();
  return {.violation = invariants_.violation(), .totals = totals_};
}

// True: not now, or not at all.
bool NodesWorld::put_off(Happening& happening) {
  Instant until;
  if (happening.who == kTheHost) {
    if (!host_.is_up() || happening.life != host_.life()) return true;
    until = host_paused_until_;
  } else if (happening.who >= 0) {
    const WholeNode& one = node(happening.who);
    if (!one.is_running() || happening.life != one.process()) return true;
    until = luck(happening.who).paused_until;
  }
  if (until <= now()) return false;
  happening.at = happening.judges ? until + 1us : until;
  agenda_.put_off(std::move(happening));
  return true;
}

void NodesWorld::plan(Duration after, std::function<void()> act) {
  agenda_.plan({.at = now() + after, .act = std::move(act)});
}

void NodesWorld::later(std::int32_t index, Instant at, std::function<void()> act) {
  agenda_.plan({.at = at, .who = index, .life = node(index).process(), .act = std::move(act)});
}

void NodesWorld::start_after(std::int32_t index, Duration delay) {
  luck(index).is_coming = true;
  plan(delay, [this, index] {
    luck(index).is_coming = false;
    if (!luck(index).stays_down) node(index).start();
  });
}

void NodesWorld::connect(std::int32_t index) {
  const bool hopeless = links_.is_cut_off(index);
  const Duration takes = hopeless ? kConnectTimeout : links_.latency();
  later(index, now() + takes, [this, index, hopeless] {
    if (hopeless || links_.is_cut_off(index) || !host_.is_up()) return node(index).on_unreachable();
    luck(index).trouble_until = now();
    luck(index).awaited = false;
    node(index).on_connected(links_.open(index, node(index).process(), host_.life()));
  });
}

void NodesWorld::came_to_node(LinkId link, std::string_view bytes) {
  // Planned for its process only, so it is there.
  for (std::int32_t index = 0; index < count(); ++index)
    if (node(index).link() == link) return node(index).on_bytes(link, bytes);
}

bool NodesWorld::is_stuck(std::int64_t round) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [round](const WholeNode& one) {
    return one.runs() == round && one.has_hanging();
  });
}

// One failure makes others, because the workers of a round talk to each other.
void NodesWorld::group_failed(std::int32_t failed, std::int64_t round) {
  if (!is_stormy()) return;
  for (std::int32_t index = 0; index < count(); ++index) {
    if (index == failed || node(index).runs() != round) continue;
    if (!dice_.chance(plan_.work.drags_others)) continue;
    later(index, now() + dice_.between(Duration{}, Duration(300ms)), [this, index, round] {
      if (is_stormy() && node(index).runs() == round) node(index).kill_worker();
    });
  }
}

SessionView NodesWorld::view(std::int32_t index) const {
  const WholeNode& one = node(index);
  const auto link = one.link();
  const bool connected = link && links_.works(*link) && host_.knows(*link);
  return {.id = one.id(),
          .workers = plan_.session.nodes[static_cast<std::size_t>(index)].workers,
          .runs = one.runs(),
          .connected = connected,
          .closed_for = connected ? std::nullopt : host_.closed_for(index),
          .awaited = luck(index).awaited && one.is_running()};
}

std::vector<SessionView> NodesWorld::views() const {
  std::vector<SessionView> all;
  all.reserve(nodes_.size());
  for (std::int32_t index = 0; index < count(); ++index) all.push_back(view(index));
  return all;
}

Duration NodesWorld::well_for(std::int32_t index) const {
  const auto link = node(index).link();
  if (!link || !links_.works(*link) || !host_.knows(*link)) return {};
  const Instant since = std::max(luck(index).trouble_until, host_trouble_until_);
  return std::max(now() - since, Duration{});
}

}  // namespace regroup::sim
