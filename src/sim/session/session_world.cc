#include "sim/session/session_world.h"

#include <algorithm>
#include <utility>

namespace regroup::sim {

SessionWorld::SessionWorld(const Options& options, Trace trace)
    : options_(options),
      plan_(make_session_plan(options)),
      trace_(std::move(trace)),
      dice_(plan_.seed),
      links_(agenda_, *this, {.slow = plan_.slow, .slowest = plan_.rules.heartbeat_limit / 2},
             dice_.seed()),
      invariants_(plan_),
      host_(plan_, options.broken, agenda_, links_, invariants_, trace_, *this),
      luck_(plan_.nodes.size()),
      others_(plan_, static_cast<std::int32_t>(plan_.nodes.size()), plan_.others.seed, agenda_,
              host_, *this, trace_, totals_) {
  SessionSurroundings& here = *this;
  for (std::size_t index = 0; index < plan_.nodes.size(); ++index)
    nodes_.emplace_back(plan_, static_cast<std::int32_t>(index), options.broken, here);
}

Report SessionWorld::run() {
  if (trace_.on()) trace_.line(now(), "world", describe(plan_));
  plan(dice_.between(Duration{}, Duration(1s)), [this] { host_.start(); });
  for (std::int32_t index = 0; index < count(); ++index)
    start_after(index, plan_.nodes[static_cast<std::size_t>(index)].starts);
  others_.start_all();
  plan(plan_.chaos, [this] {
    if (stage_ == Stage::Storm) stop_faults();
  });
  plan_next_fault();
  while (stage_ != Stage::Over && !invariants_.violation() && !agenda_.empty()) {
    Happening happening = agenda_.next();
    if (put_off(happening)) continue;
    happening.act();
    totals_.steps += 1;
    if (const auto& wrong = others_.invariants().violation()) invariants_.violated(*wrong);
    if (stage_ == Stage::Storm && options_.steps && totals_.steps >= *options_.steps) stop_faults();
    if (stage_ == Stage::Meeting) note_if_met();
  }
  if (invariants_.violation()) trace_.line(now(), "world", "WRONG: " + *invariants_.violation());
  totals_.runs = 1;
  totals_.virtual_time = now() - Instant{};
  totals_.seals = invariants_.seals();
  totals_.joins = others_.invariants().joins();
  return {.violation = invariants_.violation(), .totals = totals_};
}

// True: not now, or not at all.
bool SessionWorld::put_off(Happening& happening) {
  Instant until;
  if (happening.who == kTheHost) {
    if (!host_.is_up() || happening.life != host_.life()) return true;
    until = host_paused_until_;
  } else if (happening.who >= count()) {
    const std::int32_t index = happening.who - count();
    const Node& one = others_.node(index);
    if (!one.running() || happening.life != one.process()) return true;
    until = others_.paused_until(index);
  } else if (happening.who >= 0) {
    const SessionNode& one = node(happening.who);
    if (!one.is_running() || happening.life != one.process()) return true;
    until = luck(happening.who).paused_until;
  }
  if (until <= now()) return false;
  happening.at = happening.judges ? until + 1us : until;
  agenda_.put_off(std::move(happening));
  return true;
}

void SessionWorld::plan(Duration after, std::function<void()> act) {
  agenda_.plan({.at = now() + after, .act = std::move(act)});
}

void SessionWorld::later(std::int32_t index, Instant at, std::function<void()> act) {
  agenda_.plan({.at = at, .who = index, .life = node(index).process(), .act = std::move(act)});
}

void SessionWorld::start_after(std::int32_t index, Duration delay) {
  plan(delay, [this, index] { node(index).start(); });
}

void SessionWorld::connect(std::int32_t index) {
  const bool hopeless = links_.is_cut_off(index);
  const Duration takes = hopeless ? kConnectTimeout : links_.latency();
  later(index, now() + takes, [this, index, hopeless] {
    if (hopeless || links_.is_cut_off(index) || !host_.is_up()) return node(index).on_unreachable();
    luck(index).trouble_until = now();
    luck(index).awaited = false;
    node(index).on_connected(links_.open(index, node(index).process(), host_.life()));
  });
}

void SessionWorld::came_to_node(LinkId link, std::string_view bytes) {
  // Planned for its process only, so it is there.
  for (std::int32_t index = 0; index < count(); ++index)
    if (node(index).link() == link) return node(index).on_bytes(link, bytes);
}

// One failure makes others, because the workers of a round talk to each other.
void SessionWorld::group_failed(std::int32_t failed, std::int64_t round) {
  if (!is_stormy()) return;
  others_.group_failed(round, plan_.fortune.drags_others);
  for (std::int32_t index = 0; index < count(); ++index) {
    if (index == failed || node(index).runs() != round) continue;
    if (!dice_.chance(plan_.fortune.drags_others)) continue;
    later(index, now() + dice_.between(Duration{}, Duration(300ms)), [this, index, round] {
      if (is_stormy() && node(index).runs() == round) node(index).fail_worker();
    });
  }
}

SessionView SessionWorld::view(std::int32_t index) const {
  const SessionNode& one = node(index);
  const auto link = one.link();
  const bool connected = link && links_.works(*link) && host_.knows(*link);
  return {.id = one.id(),
          .workers = plan_.nodes[static_cast<std::size_t>(index)].workers,
          .runs = one.runs(),
          .connected = connected,
          .closed_for = connected ? std::nullopt : host_.closed_for(index),
          .awaited = luck(index).awaited && one.is_running()};
}

void SessionWorld::state_changed(const core::rendezvous::State& before,
                                 const core::rendezvous::State& after,
                                 const core::rendezvous::NodeId* writer) {
  others_.state_changed(before, after, writer);
  if (before.closed) return;  // Whatever they make of it, it stays as it was.
  const auto is_other = [this](const auto& seat) { return others_.is_one(seat.first); };
  for (const auto& seat : before.participants) {
    const bool stays = after.round == before.round && after.participants.contains(seat.first);
    if (before.complete && is_other(seat) && !stays)
      invariants_.other_left(seat.first, before.round);
  }
  const bool is_sealed = after.complete && !(before.complete && before.round == after.round);
  if (is_sealed && std::all_of(after.participants.begin(), after.participants.end(), is_other))
    invariants_.others_sealed(after.round, views(), now());
}

bool SessionWorld::stays_in(const core::rendezvous::NodeId& id, std::int64_t round) const {
  const core::rendezvous::State* state = host_.state();
  for (const SessionNode& one : nodes_) {
    if (one.id() != id || !one.is_running()) continue;
    // It may not have heard yet that the round is sealed; or it waits at the exit.
    return one.runs() == round || (state != nullptr && state->complete && state->round == round &&
                                   state->participants.contains(id));
  }
  return false;
}

std::vector<SessionView> SessionWorld::views() const {
  std::vector<SessionView> all;
  all.reserve(nodes_.size());
  for (std::int32_t index = 0; index < count(); ++index) all.push_back(view(index));
  return all;
}

Duration SessionWorld::well_for(std::int32_t index) const {
  const auto link = node(index).link();
  if (!link || !links_.works(*link) || !host_.knows(*link)) return {};
  const Instant since = std::max(luck(index).trouble_until, host_trouble_until_);
  return std::max(now() - since, Duration{});
}

}  // namespace regroup::sim
