// What was before our time: a coordinator that was started again learns it from its nodes.
//
// They come one by one, and what the first ones say is not all. Agents may still run the workers of
// a round; others have left it already and want to join the next; and the round that the first ones
// name need not be the latest. So for as long as a silent node has, nobody is let into a round,
// none is sealed, and no run succeeds or fails. Workers that run are not touched by it.
#include <algorithm>
#include <utility>

#include "core/coordinator/coordinator.h"

namespace regroup::core::coordinator {

using namespace rendezvous;

namespace {

// Anybody can say anything.
constexpr std::int64_t kMostRestarts = 1'000'000'000;  // Fits an int.

bool can_be(const HeldRank& place) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  return place.round >= 0 && place.round < kMost && place.rank >= 0 &&
         place.rank < place.world_size;
}

}  // namespace

void Coordinator::learn(Node& node, const Hello& hello, Now now, Effects& effects) {
  // What it was told before our time counts on, but not what cannot be.
  const bool is_counted = rules_.window == Duration{} && !rules_.per_node;
  const std::int64_t told =
      std::min(hello.restarts, is_counted ? rules_.max_restarts : kMostRestarts);
  restarts_ = std::max(restarts_, told);
  node.restarts = std::max(node.restarts, told);
  const HeldRank place =
      hello.running ? hello.running->place : hello.claim.held.value_or(HeldRank{});
  const bool was_in_round = can_be(place);
  if (was_in_round) {
    const std::string before = phase(state_);
    next_round_ = std::max(next_round_, place.round + 1);
    raise_round();
    if (phase(state_) != before && !state_.closed) add(effects, LeftPhase{before});
  }
  const bool is_new = now.instant < young_until_ && seen_.insert(hello.node).second;
  if (has_sealed_ || state_.closed) return;
  if (was_in_round && place.round > returned_.round) {
    returned_ = {.round = place.round, .world_size = place.world_size, .ranks = {}};
    members_.clear();
  }
  if (was_in_round && place.round == returned_.round) {
    returned_.ranks.insert(place.rank);
    members_.insert(hello.node);
  }
  if (!is_new || hold_until_ || !(was_in_round || hello.again)) return;
  hold_until_ = young_until_;
  look_by(*hold_until_);
}

// True: its workers may run on.
bool Coordinator::restore(Node& node, const Running& running, Now now, Effects& effects) {
  const HeldRank& place = running.place;
  if (has_sealed_ || state_.closed || !can_be(place)) return false;
  if (!announced_ || place.round > *announced_) {
    begin_restored(running, now, effects);
    failed_in_hold_.reset();
    hold_until_ = now.instant + rules_.heartbeat_limit;
    look_by(*hold_until_);
  } else if (hold_until_ && place.round == *announced_ && !state_.complete) {
    // All that had come back have gone again. It is over, but its other members have to stop first.
    begin_restored(running, now, effects);
    stopped_ = announced_;
    stop_ = {
        .round = state_.round, .why = Stop::Why::Members, .text = "a node of the round is gone"};
  }
  if (!hold_until_ || state_.closed || !state_.complete || place.round != state_.round ||
      place.world_size != world_size_ || !restored_.insert(place.rank).second)
    return false;
  state_.participants.emplace(node.id, place.rank);
  state_.claims[node.id] = node.claim;
  state_.last_heartbeats[node.id] = now.utc;
  awaited_.insert(node.id);
  members_.insert(node.id);
  names_.push_back(node.claim.name);
  last_names_.insert(node.claim.name);
  restarts_ = std::max(restarts_, running.restart_count);
  node.restarts = std::max(node.restarts, running.restart_count);
  return is_running();
}

// A round of which we know only what this member says.
void Coordinator::begin_restored(const Running& running, Now now, Effects& effects) {
  const std::string before = phase(state_);
  stop_round({.why = Stop::Why::Members, .text = "the other nodes are in a later round"}, now,
             effects);
  if (state_.closed) return;
  for (auto& [id, node] : nodes_)
    if (node.doing == Doing::Running || node.doing == Doing::Done) node.doing = Doing::Idle;
  // Who has joined meanwhile waits for the next.
  for (const auto& [id, rank] : std::exchange(state_.participants, {})) {
    if (!has_session(id)) {
      state_.wait_list.insert(id);
      continue;
    }
    state_.claims.erase(id);
    state_.last_heartbeats.erase(id);
  }
  state_.round = running.place.round;
  state_.complete = true;
  state_.deadline.reset();
  state_.seal = Seal{.round = state_.round, .world_size = running.place.world_size};
  announced_ = state_.round;
  stopped_.reset();
  world_size_ = running.place.world_size;
  last_names_.clear();
  names_.clear();  // Grows with those who come: the size of the world is only what somebody says.
  restored_.clear();
  awaited_.clear();
  add(effects, LeftPhase{before});
}

bool Coordinator::all_have_returned() const {
  return returned_.round >= 0 &&
         static_cast<std::int64_t>(returned_.ranks.size()) == returned_.world_size;
}

void Coordinator::end_hold(Now now, Effects& effects) {
  hold_until_.reset();
  const std::string before = phase(state_);
  if (const auto failed = std::exchange(failed_in_hold_, {});
      failed && is_running() && failed->second.round == state_.round)
    if (const auto found = nodes_.find(failed->first); found != nodes_.end())
      spend(found->second, failed->second, now, effects);
  if (state_.closed) return;
  const auto missing = returned_.world_size - static_cast<std::int64_t>(returned_.ranks.size());
  if (announced_ && missing > 0)
    stop_round(
        {.why = Stop::Why::Members,
         .text = std::to_string(missing) + " of the round have not come back to the coordinator"},
        now, effects);
  if (state_.closed) return;
  // All were here, and left their round: nobody is waited for.
  if (!announced_ && all_have_returned()) announced_ = returned_.round;
  for (const auto& [id, node] : nodes_)
    if (node.doing == Doing::Joining) settle(node, Operation::Exit, now);
  // Some are here, and have left it.
  if (is_running() && static_cast<std::int64_t>(state_.participants.size()) < world_size_)
    stop_round({.why = Stop::Why::Members, .text = "others of the round have left it"}, now,
               effects);
  if (state_.closed) return;
  settle_all_joining(now);
  follow(before, now, effects);
  succeed_if_all_are_done(now, effects);
}

}  // namespace regroup::core::coordinator
