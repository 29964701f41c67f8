#include "sim/session/coordinated_world.h"

#include <algorithm>
#include <map>
#include <utility>

namespace regroup::sim {

CoordinatedWorld::CoordinatedWorld(const Options& options, SessionPlan plan, std::uint64_t seed,
                                   Trace trace)
    : options_(options),
      plan_(std::move(plan)),
      trace_(std::move(trace)),
      dice_(seed),
      links_(agenda_, *this, {.slow = plan_.slow, .slowest = plan_.rules.heartbeat_limit / 2},
             dice_.seed()),
      invariants_(plan_),
      host_(plan_, options.broken, agenda_, links_, invariants_, trace_, *this),
      luck_(plan_.nodes.size()) {}

Report CoordinatedWorld::run() {
  if (trace_.on()) trace_.line(now(), "world", description());
  plan(dice_.between(Duration{}, Duration(1s)), [this] { start_host(); });
  for (std::int32_t index = 0; index < count(); ++index)
    start_after(index, plan_.nodes[static_cast<std::size_t>(index)].starts);
  begin();
  plan(plan_.chaos, [this] {
    if (stage_ == Stage::Storm) stop_faults();
  });
  plan_next_fault();
  while (stage_ != Stage::Over && !invariants_.violation() && !agenda_.empty()) {
    Happening happening = agenda_.next();
    if (put_off(happening)) continue;
    happening.act();
    totals_.steps += 1;
    if (stage_ == Stage::Storm && options_.steps && totals_.steps >= *options_.steps) stop_faults();
    stepped();
  }
  if (invariants_.violation()) trace_.line(now(), "world", "WRONG: " + *invariants_.violation());
  totals_.runs = 1;
  totals_.virtual_time = now() - Instant{};
  totals_.seals = invariants_.seals();
  add_totals(totals_);
  return {.violation = invariants_.violation(), .totals = totals_};
}

// True: not now, or not at all.
bool CoordinatedWorld::put_off(Happening& happening) {
  std::optional<Instant> until;
  if (happening.who == kTheHost) {
    if (host_.is_up() && happening.life == host_.life()) until = host_paused_until_;
  } else if (happening.who >= 0 && happening.who < count()) {
    const ConnectedNode& one = any(happening.who);
    if (one.is_running() && happening.life == one.process())
      until = luck(happening.who).paused_until;
  } else {
    until = paused_until(happening);
  }
  if (!until) return true;
  if (*until <= now()) return false;
  happening.at = happening.judges ? *until + 1us : *until;
  agenda_.put_off(std::move(happening));
  return true;
}

void CoordinatedWorld::start_host() {
  host_.start();
  host_since_ = now();
}

void CoordinatedWorld::plan(Duration after, std::function<void()> act) {
  agenda_.plan({.at = now() + after, .act = std::move(act)});
}

void CoordinatedWorld::later(std::int32_t index, Instant at, std::function<void()> act) {
  agenda_.plan({.at = at, .who = index, .life = any(index).process(), .act = std::move(act)});
}

void CoordinatedWorld::start_after(std::int32_t index, Duration delay) {
  luck(index).is_coming = true;
  plan(delay, [this, index] {
    luck(index).is_coming = false;
    if (!luck(index).stays_down) any(index).start();
  });
}

void CoordinatedWorld::connect(std::int32_t index) {
  const bool hopeless = links_.is_cut_off(index);
  const Duration takes = hopeless ? kConnectTimeout : links_.latency();
  later(index, now() + takes, [this, index, hopeless] {
    if (hopeless || links_.is_cut_off(index) || !host_.is_up()) return any(index).on_unreachable();
    luck(index).trouble_until = now();
    luck(index).awaited = false;
    any(index).on_connected(links_.open(index, any(index).process(), host_.life()));
  });
}

void CoordinatedWorld::came_to_node(LinkId link, std::string_view bytes) {
  // It was planned for one process of the node, so that process is there.
  for (ConnectedNode* one : nodes_)
    if (one->link() == link) return one->on_bytes(link, bytes);
}

void CoordinatedWorld::drag_others(std::int32_t failed, std::int64_t round, double chance) {
  for (std::int32_t index = 0; index < count(); ++index) {
    if (index == failed || any(index).runs() != round) continue;
    if (!dice_.chance(chance)) continue;
    later(index, now() + dice_.between(Duration{}, Duration(300ms)), [this, index, round] {
      if (is_stormy() && any(index).runs() == round) any(index).fail_worker();
    });
  }
}

std::int64_t CoordinatedWorld::in_whole_groups(const std::set<std::string>& done) const {
  const std::int64_t segment = std::max<std::int64_t>(plan_.rules.segment, 1);
  std::map<std::string, std::int64_t> groups;
  for (const ConnectedNode* one : nodes_)
    groups[one->group()] +=
        (one->is_running() ? 1 : 0) + (done.contains(one->id().address) ? 1 : 0);
  std::int64_t whole = 0;
  for (const auto& [group, members] : groups) whole += members - members % segment;
  return whole;
}

bool CoordinatedWorld::is_connected(std::int32_t index) const {
  const auto link = any(index).link();
  return link && links_.works(*link) && host_.knows(*link);
}

SessionView CoordinatedWorld::view(std::int32_t index) const {
  const ConnectedNode& one = any(index);
  const bool connected = is_connected(index);
  return {.id = one.id(),
          .workers = plan_.nodes[static_cast<std::size_t>(index)].workers,
          .runs = one.runs(),
          .connected = connected,
          .closed_for = connected ? std::nullopt : host_.closed_for(index),
          .awaited = luck(index).awaited && one.is_running()};
}

std::vector<SessionView> CoordinatedWorld::views() const {
  std::vector<SessionView> all;
  all.reserve(nodes_.size());
  for (std::int32_t index = 0; index < count(); ++index) all.push_back(view(index));
  return all;
}

Duration CoordinatedWorld::well_for(std::int32_t index) const {
  if (!is_connected(index)) return {};
  const Instant since = std::max(luck(index).trouble_until, host_trouble_until_);
  return std::max(now() - since, Duration{});
}

Duration CoordinatedWorld::undisturbed_for(std::int32_t index) const {
  if (!host_.is_up() || links_.is_cut_off(index)) return {};
  const Instant since = std::max({luck(index).fault_until, host_trouble_until_, host_since_});
  return std::max(now() - since, Duration{});
}

}  // namespace regroup::sim
