// What follows from a change: a seal, a reopened round, a stop, the end of the run.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "core/coordinator/coordinator.h"
#include "core/rendezvous/assign_ranks.h"

namespace regroup::core::coordinator {

using namespace rendezvous;

namespace {

// What is waited for is told when it has changed: soon at first, then once a second, and less often
// when there are very many to be told.
constexpr Duration kTellFirst = 50ms;
constexpr Duration kTellAgain = 1s;
constexpr Duration kTellPerNode = 1ms;

std::string count(std::int64_t number, const char* one, const char* many) {
  return std::to_string(number) + (number == 1 ? one : many);
}

}  // namespace

void Coordinator::send(const Node& node, FromCoordinator message, Effects& effects) const {
  if (node.session) add(effects, Send{*node.session, std::move(message)});
}

Reading Coordinator::reading(Now now, bool last_call_over) const {
  return {.now = now.instant,
          .give_up = now.instant + kLongest,
          .heartbeat_due = false,
          .last_call_over = last_call_over};
}

void Coordinator::raise_round() {
  if (!state_.complete) state_.round = std::max(state_.round, next_round_);
}

void Coordinator::settle(const Node& node, Operation operation, Now now) {
  const Actor actor{.node = node.id, .claim = node.claim, .utc = now.utc};
  for (int changes = 0;; ++changes) {
    raise_round();
    CHECK(changes < 8);  // Out of a list, into the next, sealed: the tables know no circle.
    const Action action = decide(operation, state_, node.id, settings_, reading(now, false));
    if (!changes_state(action)) return;
    // In the tables a sealed round with a hole is left by whoever reads it late; here nobody does.
    if (operation == Operation::Join && action == Action::RemoveFromParticipants) return;
    state_ = apply(std::move(state_), action, actor, settings_);
  }
}

Coordinator::Preference Coordinator::preference(const Node& node) const {
  int rank = state_.redundancy_list.contains(node.id) ? 3 : 2;
  if (rank == 2 && last_names_.contains(node.claim.name)) rank = 1;
  if (members_.contains(node.id)) rank = 0;
  return {rank, node.arrived};
}

void Coordinator::settle_all_joining(Now now) {
  if (hold_until_) return;
  if (has_segments()) {
    for (const auto& [id, node] : nodes_)
      if (is_loose(node)) joins_group(node);
    return place_groups(now);
  }
  struct Place {
    Preference preference;
    const Node* node;
  };
  std::vector<Place> places;
  for (const auto& [id, node] : nodes_) {
    if (node.doing != Doing::Joining) continue;
    places.push_back({preference(node), &node});
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.preference < b.preference; });
  for (const Place& place : places) settle(*place.node, Operation::Join, now);
}

void Coordinator::follow(const std::string& before, Now now, Effects& effects) {
  if (state_.closed) return;
  raise_round();
  const bool reopened = !state_.complete && before != phase(state_);
  if (reopened) settle_all_joining(now);
  place_groups(now);
  seal_if_due(now);
  if (state_.deadline && (!last_call_ || last_call_->first != *state_.deadline))
    last_call_.emplace(*state_.deadline, now.instant);
  if (!state_.deadline) last_call_.reset();
  if (state_.complete && announced_ != state_.round) announce_seal(now, effects);
  if (is_running() && announced_ == state_.round && !hold_until_ && !state_.wait_list.empty() &&
      static_cast<std::int64_t>(state_.participants.size()) < settings_.max_nodes) {
    const auto waiting = static_cast<std::int64_t>(state_.wait_list.size());
    stop_round({.why = Stop::Why::Members,
                .text = count(waiting, " node wants to come in", " nodes want to come in")},
               now, effects);
  }
  if (before != phase(state_)) add(effects, LeftPhase{before});
  if (tell_at_) return;
  tell_at_ = std::max(
      now.instant + kTellFirst,
      told_ + std::max(kTellAgain, kTellPerNode * static_cast<std::int64_t>(nodes_.size())));
}

// When the members of the last round are back, or when the last call is over.
void Coordinator::seal_if_due(Now now) {
  if (state_.complete || state_.participants.empty() || hold_until_) return;
  const auto end = last_call_end();
  // Who waits without a session sees that the round is open when it looks next, in a second or so.
  // If it were sealed before, the one who waits would stop it again, and so on without end.
  const bool others_wait = std::any_of(state_.wait_list.begin(), state_.wait_list.end(),
                                       [this](const NodeId& id) { return !has_session(id); });
  const bool all_back = announced_ && awaited_.empty() && !others_wait;
  if (!all_back && !(end && now.instant > *end)) return;
  const NodeId actor = state_.participants.begin()->first;
  const Action action = decide(Operation::Join, state_, actor, settings_, reading(now, true));
  if (action != Action::MarkComplete) return;
  state_ =
      apply(std::move(state_), action, {.node = actor, .claim = {}, .utc = now.utc}, settings_);
}

void Coordinator::announce_seal(Now now, Effects& effects) {
  announced_ = state_.round;
  sealed_at_ = now.instant;
  stopped_.reset();
  has_sealed_ = true;
  hold_until_.reset();
  awaited_.clear();
  world_size_ = static_cast<std::int64_t>(state_.participants.size());
  const auto size = static_cast<std::size_t>(world_size_);
  names_.assign(size, "");
  std::vector<Node*> by_rank(size, nullptr);
  std::vector<RoleInfo> roles(size);
  bool by_session = true;
  for (const auto& [id, rank] : state_.participants) {
    awaited_.insert(id);
    if (rank < 0 || rank >= world_size_) {
      by_session = false;  // A round that somebody else has sealed, with a hole in it.
      continue;
    }
    const auto index = static_cast<std::size_t>(rank);
    names_[index] = name_of(state_, id);
    const auto found = nodes_.find(id);
    if (found == nodes_.end() || found->second.doing != Doing::Joining) {
      by_session = false;
      continue;
    }
    by_rank[index] = &found->second;
    roles[index] = {found->second.role, rank, found->second.workers};
  }
  last_names_ = {names_.begin(), names_.end()};
  std::vector<AssignedRanks> ranks(size);
  if (by_session) ranks = assign_ranks(roles);
  for (std::size_t index = 0; index < size; ++index) {
    Node* node = by_rank[index];
    if (node == nullptr) continue;
    node->doing = Doing::Running;
    node->claim.held = HeldRank{
        .round = state_.round, .rank = static_cast<std::int64_t>(index), .world_size = world_size_};
    node->sealed = {.round = state_.round,
                    .rank = static_cast<std::int64_t>(index),
                    .world_size = world_size_,
                    .restart_count = restart_count(*node),
                    .by_session = by_session,
                    .ranks = ranks[index],
                    .bootstrap = {}};
    if (by_session) node->sealed.bootstrap = by_rank.front()->join->bootstrap;
    send(*node, node->sealed, effects);
  }
  members_ = awaited_;
  // Who came too late for this one waits for the next, or is a spare.
  settle_all_joining(now);
}

void Coordinator::stop_round(Stop stop, Now now, Effects& effects) {
  if (!is_running()) return;
  if (stop.why == Stop::Why::Members && rules_.max_changes && ++changes_ > *rules_.max_changes) {
    stop.why = Stop::Why::RunFailed;
    stop.note = "members have changed more than " + std::to_string(*rules_.max_changes) +
                " times (--max-membership-changes)";
    return end_run(std::move(stop), now, effects);
  }
  stopped_ = state_.round;
  stop.round = state_.round;
  stop_ = std::move(stop);
  look_at_ = Instant{};  // Who was done and has gone is missed from now on.
  for (const auto& [id, node] : nodes_)
    if (node.doing == Doing::Running || node.doing == Doing::Done)
      send(node, stop_for(node), effects);
}

Stop Coordinator::stop_for(const Node& node) const {
  Stop stop = stop_;
  stop.restart_count = restart_count(node);
  // Where each node counts its own, the others' failures are only a change of members.
  if (rules_.per_node && stop.why == Stop::Why::Failure && stop.culprit != node.id) {
    stop.why = Stop::Why::Members;
    stop.verdict.reset();
  }
  return stop;
}

void Coordinator::end_run(Stop stop, Now now, Effects& effects) {
  if (!state_.redundancy_list.empty()) tell_progress(now, effects);
  const std::string before = phase(state_);
  ran_when_closed_ = is_running();
  stop.round = announced_.value_or(0);
  stop.restart_count = restarts_;
  end_ = stop_ = std::move(stop);
  stopped_ = announced_;
  state_ = apply(std::move(state_), Action::MarkClosed, {.node = {}, .claim = {}, .utc = now.utc},
                 settings_);
  for (const auto& [id, node] : nodes_) send(node, *end_, effects);
  add(effects, LeftPhase{before});
  tell_at_.reset();
}

void Coordinator::succeed_if_all_are_done(Now now, Effects& effects) {
  if (!is_running() || hold_until_) return;
  if (static_cast<std::int64_t>(state_.participants.size()) != world_size_) return;
  // Whoever was not done when last looked at is asked first. If each that is done asked all of them
  // from the beginning, ten thousand would keep us busy for half a minute.
  const auto is_open = [this](const auto& entry) {
    const auto found = nodes_.find(entry.first);
    return found == nodes_.end() || found->second.doing != Doing::Done;
  };
  const auto from = state_.participants.lower_bound(not_done_);
  auto open = std::find_if(from, state_.participants.end(), is_open);
  bool all = open == state_.participants.end();
  if (all) {
    open = std::find_if(state_.participants.begin(), from, is_open);
    all = open == from;
  }
  if (!all) {
    not_done_ = open->first;
    return;
  }
  // Spares must know that they are.
  if (!state_.redundancy_list.empty()) tell_progress(now, effects);
  const std::string before = phase(state_);
  succeeded_ = true;
  state_ = apply(std::move(state_), Action::MarkClosed, {.node = {}, .claim = {}, .utc = now.utc},
                 settings_);
  for (const auto& [id, node] : nodes_) send(node, Over{}, effects);
  add(effects, LeftPhase{before});
  tell_at_.reset();
}

Wait Coordinator::waiting(const NodeId& self, Instant now) const {
  return {.state = state_,
          .self = self,
          .settings = settings_,
          .now = now,
          .give_up = now + kLongest,
          .last_call_end = last_call_end(),
          .expected = names_};
}

std::optional<Instant> Coordinator::last_call_end() const {
  if (!last_call_) return {};
  return last_call_->second + rules_.last_call;
}

void Coordinator::tell_progress(Now now, Effects& effects) {
  tell_at_.reset();
  told_ = now.instant;
  // What it says depends on the list a node is on and on its group, and not on the node.
  std::map<std::pair<bool, std::string>, Progress> said;
  std::optional<std::string> of_round;
  for (const auto& [id, node] : nodes_) {
    if (node.doing != Doing::Joining) continue;
    const bool is_spare = state_.redundancy_list.contains(id);
    const auto [found, is_new] =
        said.try_emplace({is_spare, is_spare && has_segments() ? node.claim.group : ""});
    if (is_new) found->second = progress_of(node, now.instant, of_round);
    send(node, found->second, effects);
  }
}

std::string Coordinator::dropped_text() const { return "this node was dropped from the round"; }

}  // namespace regroup::core::coordinator
