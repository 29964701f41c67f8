// What must have become of a run with a coordinator once the faults have stopped.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "sim/session/session_world.h"

namespace regroup::sim {

std::int64_t SessionWorld::seats(const std::set<std::string>& done) const {
  return std::min(others_.live() + in_whole_groups(done), plan_.rules.max_nodes);
}

bool SessionWorld::has_sessions() const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const SessionNode& one) { return one.is_running(); });
}

// A node waits in vain behind a full round that torchrun has sealed, and the members meet again and
// again. The coordinator cannot help: the node that has sealed goes by what it wrote for another
// second.
bool SessionWorld::can_meet() const {
  const auto all = std::int64_t{count()} + others_.count();
  return seats({}) >= plan_.rules.min_nodes &&
         (!others_.has_torchrun() || all <= plan_.rules.max_nodes);
}

// One sealed round of as many live nodes as it may have, whose workers run; the others are spares.
std::optional<std::string> SessionWorld::why_not_met() const {
  const auto* coordinator = host_.coordinator();
  if (is_mixed(plan_) && coordinator != nullptr && coordinator->is_over()) return why_not_ended();
  if (!can_meet()) return std::nullopt;
  // If all that had a session have ended the others go on as if there had never been one.
  if (coordinator == nullptr && !has_sessions()) return std::nullopt;
  if (coordinator == nullptr) return "there is no coordinator";
  const core::rendezvous::State& state = coordinator->state();
  const std::string there = describe(state, shared_settings(plan_));
  if (coordinator->is_over()) return "the run is over, and not all have heard of it";
  if (!state.complete) return "the round is still open: " + there;
  // A node whose part is done may go, and keeps its place.
  std::set<std::string> done;
  bool may_wait = false;  // Those that come late, because nobody who is done is run again for them.
  for (const auto& one : coordinator->status({}).nodes) {
    if (one.place != core::run::NodeStatus::Place::Done) continue;
    may_wait = true;
    if (!one.connected) done.insert(one.address);
  }
  const auto members = static_cast<std::int64_t>(state.participants.size());
  const auto waiting = static_cast<std::int64_t>(state.wait_list.size());
  if (members > seats(done) || members + (may_wait ? waiting : 0) < seats(done))
    return fmt::format("the round should have {} members: {}", seats(done), there);
  if (!state.wait_list.empty() && !may_wait) return "somebody still waits: " + there;
  if (const auto why = others_.why_not_in(state); why && !may_wait)
    return fmt::format("{}: {}", *why, there);
  for (const SessionNode& one : nodes_) {
    if (!one.is_running()) {
      if (state.participants.contains(one.id()) && !done.contains(one.id().address))
        return fmt::format("{} is dead: {}", short_name(one.id()), there);
      continue;
    }
    const auto member = state.participants.find(one.id());
    if (member == state.participants.end()) {
      if (!one.is_spare())
        return fmt::format("{} does not know that it is spare: {}", short_name(one.id()), there);
      continue;
    }
    const auto* told = one.member();
    if (told->joining() || !told->sealed() || told->sealed()->round != state.round ||
        told->sealed()->rank != member->second || told->stop())
      return fmt::format("{} does not know its place: {}", short_name(one.id()), there);
    if (told->sealed()->world_size != static_cast<std::int64_t>(state.participants.size()))
      return fmt::format("{} runs on though one has left its round: {}", short_name(one.id()),
                         there);
    const auto running = one.runs();
    if (running && *running != state.round) return short_name(one.id()) + " runs old workers";
  }
  return std::nullopt;
}

void SessionWorld::note_if_met() {
  if (why_not_met())
    met_.reset();
  else if (!met_)
    met_ = now();
}

void SessionWorld::must_have_met() {
  if (const auto why = why_not_met())
    return invariants_.violated(fmt::format("the nodes have not met {} after the last fault: {}",
                                            seconds(meeting_bound(plan_)), *why));
  if (can_meet() && met_) {
    const Duration took = *met_ - calm_since_;
    totals_.nearest_to_bound =
        static_cast<double>(took.count()) / static_cast<double>(meeting_bound(plan_).count());
    if (trace_.on())
      trace_.line(now(), "world",
                  fmt::format("all have met {} after the last fault", seconds(took)));
  }
  stage_ = Stage::Steady;
  told_when_met_ = host_.told();
  others_when_met_ = others_.invariants().beliefs();
  Duration steady = plan_.rules.heartbeat_limit * 2;
  if (is_mixed(plan_)) steady = std::max(steady, plan_.others.settings.silence_limit() + 5s);
  plan(steady, [this] { must_be_steady(); });
}

void SessionWorld::must_be_steady() {
  const bool is_over = host_.coordinator() != nullptr && host_.coordinator()->is_over();
  bool can_be = can_meet() && !is_over;
  // A torchrun node that was dropped may come back at any time.
  for (std::int32_t index = 0; index < others_.count(); ++index)
    can_be = can_be && !others_.is_lost(index);
  if (can_be && host_.told() != told_when_met_)
    return invariants_.violated("something was told though nothing had changed");
  if (can_be && others_when_met_ != others_.invariants().beliefs())
    return invariants_.violated("the nodes met again though nothing was wrong");
  if (!has_sessions() || plan_.ending == Ending::Nothing ||
      (!can_be && plan_.ending != Ending::Close)) {
    stage_ = Stage::Over;
    return;
  }
  stage_ = Stage::Ending;
  trace_.line(now(), "world", "the run is brought to its end");
  std::int32_t actor = -1;
  for (std::int32_t index = 0; index < count(); ++index)
    if (node(index).is_training() || (actor < 0 && node(index).is_running())) actor = index;
  switch (plan_.ending) {
    case Ending::Nothing:
      break;
    case Ending::Success:
      succeed();
      break;
    case Ending::Failure:
      node(actor).fail_worker();
      break;
    case Ending::Close:
      totals_.closes += 1;
      node(actor).leave(true);
      break;
  }
  plan(ending_bound(plan_), [this] { must_have_ended(); });
}

// Where nodes without a session are in the round all meet at its exit, and each closes the run.
void SessionWorld::succeed() {
  const core::rendezvous::State state = host_.coordinator()->state();
  for (SessionNode& one : nodes_) one.succeed();
  const bool by_session =
      std::none_of(state.participants.begin(), state.participants.end(),
                   [this](const auto& seat) { return others_.is_one(seat.first); });
  if (by_session) return;
  for (SessionNode& one : nodes_)
    if (state.participants.contains(one.id())) one.leave(true);
  for (std::int32_t index = 0; index < others_.count(); ++index)
    if (state.participants.contains(others_.node(index).id())) others_.node(index).close();
}

std::optional<std::string> SessionWorld::why_not_ended() const {
  for (const SessionNode& one : nodes_)
    if (one.is_running()) return short_name(one.id()) + " goes on though the run is over";
  return others_.why_not_ended();
}

void SessionWorld::must_have_ended() {
  stage_ = Stage::Over;
  const bool can_end = plan_.ending != Ending::Failure;
  const bool is_over = host_.coordinator() != nullptr && host_.coordinator()->is_over();
  if (can_end && !is_over) invariants_.violated("the run goes on though it was ended");
  if (!is_over) {
    // A restart was left: all are in the next round.
    if (const auto why = why_not_met())
      invariants_.violated("the run has not gone on after a failure: " + *why);
    return;
  }
  if (const auto why = why_not_ended()) invariants_.violated(*why);
}

}  // namespace regroup::sim
