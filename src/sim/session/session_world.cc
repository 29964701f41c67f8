#include "sim/session/session_world.h"

#include <algorithm>
#include <utility>

namespace regroup::sim {

SessionWorld::SessionWorld(const Options& options, Trace trace)
    : SessionWorld(options, make_session_plan(options), std::move(trace)) {}

SessionWorld::SessionWorld(const Options& options, const SessionPlan& plan, Trace trace)
    : CoordinatedWorld(options, plan, plan.seed, std::move(trace)),
      others_(plan_, static_cast<std::int32_t>(plan_.nodes.size()), plan_.others.seed, agenda_,
              host_, *this, trace_, totals_) {
  SessionSurroundings& here = *this;
  for (std::size_t index = 0; index < plan_.nodes.size(); ++index)
    add(nodes_.emplace_back(plan_, static_cast<std::int32_t>(index), options.broken, here));
}

void SessionWorld::stepped() {
  if (const auto& wrong = others_.invariants().violation()) invariants_.violated(*wrong);
  if (stage_ == Stage::Meeting) note_if_met();
}

void SessionWorld::add_totals(Totals& totals) const { totals.joins = others_.invariants().joins(); }

std::optional<Instant> SessionWorld::paused_until(const Happening& happening) const {
  if (happening.who < count()) return Instant{};
  const std::int32_t index = happening.who - count();
  const Node& one = others_.node(index);
  if (!one.running() || happening.life != one.process()) return {};
  return others_.paused_until(index);
}

void SessionWorld::group_failed(std::int32_t failed, std::int64_t round) {
  if (!is_stormy()) return;
  others_.group_failed(round, plan_.fortune.drags_others);
  drag_others(failed, round, plan_.fortune.drags_others);
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

}  // namespace regroup::sim
