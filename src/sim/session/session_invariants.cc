#include "sim/session/session_invariants.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/rendezvous/assign_ranks.h"
#include "sim/world/trace.h"

namespace regroup::sim {

using namespace core::coordinator;
using core::rendezvous::NodeId;

namespace {

// Progress comes once a second; a connection that is lost and found brings a few more; and a round
// that is sealed and stopped at once costs two messages each time.
constexpr std::size_t kMostPerSecond = 60;

}  // namespace

std::string round_text(std::int64_t round) { return fmt::format("round {}", round); }

void SessionInvariants::violated(std::string what) {
  if (!violation_) violation_ = std::move(what);
}

void SessionInvariants::life_began(Instant now) {
  began_ = now;
  first_hello_.reset();
  ++life_;
  has_history_ = false;
  held_.reset();
  sealed_.reset();
  stopped_.clear();
  heard_.clear();
  gone_.clear();
  told_.clear();
  seats_.clear();
  worlds_.clear();
  lost_.clear();
  restarts_ = most_restarts_ = member_changes_ = 0;
  reported_.clear();
  failed_.clear();
  changed_.clear();
  within_window_.clear();
  stopping_.clear();
  present_.clear();
  joining_.clear();
  joins_.clear();
  done_.clear();
  restored_.clear();
  over_ = false;
  others_were_first_ = false;
  broken_.clear();
  sealing_.clear();
}

void SessionInvariants::introduced(const Hello& hello, const SessionView& node, Instant now) {
  running_.reset();
  if (!first_hello_) first_hello_ = now;
  present_.insert(hello.node);
  most_restarts_ = std::max(most_restarts_, hello.restarts);
  if (hello.running) {
    most_restarts_ = std::max(most_restarts_, hello.running->restart_count);
    Restored& restored = restored_[hello.running->place.round];
    restored.world_size = hello.running->place.world_size;
    restored.restart_count = hello.running->restart_count;
    restored.members.insert(hello.node);
    if (hello.running->done) done_.emplace(hello.node, hello.running->place.round);
    running_ = hello.running->place.round;
    const bool is_first = heard_.insert(hello.node).second;
    const bool came_late = is_first && now - began_ >= drifted(plan_.rules.heartbeat_limit);
    const bool was_closed =
        node.closed_for && *node.closed_for >= drifted(plan_.rules.reconnect_grace);
    const bool is_old = std::max(held_, sealed_).value_or(0) > *running_;
    const bool is_taken =
        !seats_
             .emplace(std::pair(hello.running->place.round, hello.running->place.rank), hello.node)
             .second &&
        seats_.at({hello.running->place.round, hello.running->place.rank}) != hello.node;
    const bool is_past = is_first && sealed_;  // No node that came before knew of it.
    if (came_late || is_past || is_taken || was_closed || is_old) lost_.insert(hello.node);
  }
  heard_.insert(hello.node);
  const auto take = [this](std::int64_t round) { held_ = std::max(held_.value_or(round), round); };
  if (hello.claim.held) take(hello.claim.held->round);
  if (hello.running) take(hello.running->place.round);
  if (hello.again) has_history_ = true;
}

void SessionInvariants::told(std::int32_t node, const NodeId& id, const FromCoordinator& message,
                             Instant now) {
  auto& times = traffic_[node];
  times.push_back(now);
  while (times.front() + 1s < now) times.pop_front();
  if (times.size() > kMostPerSecond)
    violated(fmt::format("{} was sent {} messages within a second", short_name(id), times.size()));
  if (const auto* welcome = std::get_if<Welcome>(&message);
      welcome != nullptr && running_ && welcome->member) {
    const std::int64_t life = sealed_in_[{id, *running_}];
    const auto [world, is_first] = worlds_.try_emplace(*running_, life);
    // A life that began with nodes that knew of none before counts from 0 again.
    if (!is_first && world->second != life && !blind_.contains(life) &&
        !blind_.contains(world->second))
      violated(fmt::format("{} runs on in {}, and the others are in another one of that number",
                           short_name(id), round_text(*running_)));
  }
  if (const auto* sealed = std::get_if<Sealed>(&message)) told_sealed(id, *sealed);
  if (const auto* stop = std::get_if<Stop>(&message)) told_stop(id, *stop, now);
}

void SessionInvariants::heard(const NodeId& id, const FromCoordinator& message) {
  Known& known = known_[id];
  if (const auto* sealed = std::get_if<Sealed>(&message))
    known = {.round = sealed->round, .restarts = sealed->restart_count};
  if (const auto* stop = std::get_if<Stop>(&message)) known.restarts = stop->restart_count;
}

void SessionInvariants::gone(const NodeId& id) {
  closed(id);
  if (const auto round = known_[id].round) gone_[*round].insert(id);
}

bool SessionInvariants::is_broken_without(const NodeId& id, std::int64_t round) const {
  const auto found = gone_.find(round);
  if (found == gone_.end()) return false;
  return found->second.size() > (found->second.contains(id) ? 1u : 0u);
}

void SessionInvariants::told_sealed(const NodeId& id, const Sealed& sealed) {
  const auto [told, is_first] = told_.try_emplace(id, sealed);
  if (!is_first && told->second == sealed)
    return;  // Said again, to one that may not have heard it.
  told->second = sealed;
  if (over_) violated(short_name(id) + " was put into a round of a run that is over");
  const Known& known = known_[id];
  if (known.round && sealed.round <= *known.round)
    violated(fmt::format("{} was in {} and is now in {}", short_name(id), round_text(*known.round),
                         round_text(sealed.round)));
  if (sealed.restart_count < known.restarts)
    violated(fmt::format("{} is told of {} restarts, and knew of {}", short_name(id),
                         sealed.restart_count, known.restarts));
  check_count(sealed.restart_count);
  lost_.erase(id);
  joining_.erase(id);
  sealed_in_[{id, sealed.round}] = life_;
  sealing_.push_back({id, sealed});
}

void SessionInvariants::said_all(const std::vector<SessionView>& nodes,
                                 const core::rendezvous::State& state, Instant now) {
  if (!sealing_.empty()) check_seal(nodes, state, now);
  sealing_.clear();
  for (const Stop& stop : std::exchange(stopping_, {})) check_reason(stop);
  if (!state.closed) check_broken(nodes);
  broken_.clear();
  if (over_ && !state.closed) violated("a closed run was opened again");
  over_ = state.closed;
}

void SessionInvariants::check_seal(const std::vector<SessionView>& nodes,
                                   const core::rendezvous::State& state, Instant now) {
  ++seals_;
  const Sealed& first = sealing_.front().sealed;
  if (sealed_ && first.round <= *sealed_)
    violated(fmt::format("{} was sealed after {}", round_text(first.round), round_text(*sealed_)));
  if (held_ && first.round <= *held_)
    violated(fmt::format("{} was sealed, and a node has been in {}", round_text(first.round),
                         round_text(*held_)));
  // No node is known that could come back: there is a last call for the others.
  const bool is_first = !sealed_ && !held_ && !has_history_ && first.by_session;
  if (is_first && first.world_size < plan_.rules.max_nodes &&
      now - first_hello_.value_or(began_) < drifted(plan_.rules.last_call))
    violated(round_text(first.round) + ", the first, was sealed before the last call was over");
  sealed_ = first.round;
  worlds_[first.round] = life_;
  if (!has_history_) blind_.insert(life_);
  check_world(nodes);
  check_seats(state);
  check_old_workers(nodes, first.round, now);
}

void SessionInvariants::check_world(const std::vector<SessionView>& nodes) {
  const Sealed& first = sealing_.front().sealed;
  const std::string round = round_text(first.round);
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(first.world_size, 0));
  if (first.world_size < plan_.rules.min_nodes || first.world_size > plan_.rules.max_nodes)
    violated(fmt::format("{} has {} nodes, outside {}..{}", round, size, plan_.rules.min_nodes,
                         plan_.rules.max_nodes));
  if (sealing_.size() > size || (first.by_session && sealing_.size() != size))
    violated(fmt::format("{} of {} nodes was told to {}", round, size, sealing_.size()));
  std::vector<const Seat*> by_rank(size, nullptr);
  for (const Seat& seat : sealing_) {
    const Sealed& sealed = seat.sealed;
    if (sealed.round != first.round || sealed.world_size != first.world_size ||
        sealed.restart_count != first.restart_count || sealed.by_session != first.by_session ||
        sealed.bootstrap != first.bootstrap)
      violated(fmt::format("{} is another one for {}", round, short_name(seat.id)));
    if (sealed.rank < 0 || sealed.rank >= first.world_size ||
        by_rank[static_cast<std::size_t>(sealed.rank)] != nullptr) {
      violated(
          fmt::format("{}: rank {} of {} is not its own", round, sealed.rank, short_name(seat.id)));
      return;
    }
    by_rank[static_cast<std::size_t>(sealed.rank)] = &seat;
  }
  if (!first.by_session || violation_) return;
  if (plan_.rules.segment > 0) check_groups(by_rank);
  std::int64_t base = 0;
  for (const Seat* seat : by_rank) {
    const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const SessionView& one) {
      return one.id.address == seat->id.address;
    });
    if (seat->sealed.ranks.base_global_rank != base)
      violated(fmt::format("{}: the workers of {} begin with rank {} instead of {}", round,
                           short_name(seat->id), seat->sealed.ranks.base_global_rank, base));
    if (node != nodes.end()) base += node->workers;
    if (seat->sealed.ranks.global_world_size != first.ranks.global_world_size)
      violated(round + " has two sizes");
  }
  if (base != first.ranks.global_world_size && !violation_)
    violated(fmt::format("{}: {} workers, and it was told that there are {}", round, base,
                         first.ranks.global_world_size));
}

// Each block of `segment` ranks belongs to nodes of one group.
void SessionInvariants::check_groups(const std::vector<const Seat*>& by_rank) {
  const auto segment = static_cast<std::size_t>(plan_.rules.segment);
  const auto group_of = [this](const Seat& seat) {
    const auto found =
        std::find_if(plan_.nodes.begin(), plan_.nodes.end(),
                     [&](const SessionNodePlan& node) { return node.name == seat.id.address; });
    return found == plan_.nodes.end() ? "" : found->group;
  };
  if (by_rank.size() % segment != 0)
    violated(fmt::format("a round of {} nodes in groups of {}", by_rank.size(), segment));
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Seat& seat = *by_rank[rank];
    if (group_of(seat) != group_of(*by_rank[rank - rank % segment]))
      violated(
          fmt::format("{} has rank {} among nodes of another group", short_name(seat.id), rank));
  }
}

void SessionInvariants::check_old_workers(const std::vector<SessionView>& nodes, std::int64_t round,
                                          Instant now) {
  for (const SessionView& node : nodes) {
    if (!node.runs || lost_.contains(node.id)) continue;
    if (held_ && *node.runs < *held_) continue;  // It was lost before this life.
    const std::string text =
        fmt::format("{} begins while {} runs the workers of {}", round_text(round),
                    short_name(node.id), round_text(*node.runs));
    if (node.connected) violated(text);
    if (node.closed_for && *node.closed_for < drifted(plan_.rules.reconnect_grace))
      violated(fmt::format("{}, and its connection was lost only {} ago", text,
                           seconds(*node.closed_for)));
    if (node.awaited && has_history_ && !others_were_first_ &&
        now - began_ < drifted(plan_.rules.heartbeat_limit))
      violated(fmt::format("{}, and the coordinator is {} old", text, seconds(now - began_)));
  }
}

void SessionInvariants::declared_lost(const NodeId& id, Duration well_for) {
  if (well_for > plan_.rules.heartbeat_limit + plan_.rules.heartbeat_limit / 500 + 100ms)
    violated(fmt::format("{} was taken for lost, and all had been well with it for {}",
                         short_name(id), seconds(well_for)));
  lost_.insert(id);
  gone(id);
}

void SessionInvariants::failed(const NodeId& id, std::int64_t round, const std::string& text) {
  failures_[text] = {id, round};
}

void SessionInvariants::workers_started(const SessionView& node, std::int64_t round) {
  if (node.runs)
    violated(fmt::format("{} starts the workers of {} beside those of {}", short_name(node.id),
                         round_text(round), round_text(*node.runs)));
}

}  // namespace regroup::sim
