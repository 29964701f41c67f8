#include "sim/world/invariants.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "sim/world/plan.h"
#include "sim/world/trace.h"

namespace regroup::sim {

using core::rendezvous::NodeId;
using core::rendezvous::Settings;
using core::rendezvous::State;

namespace {

std::string round_name(std::int64_t round) { return fmt::format("round {}", round); }

// A clock that runs fast shows a length of time when only so much of it has passed.
Duration at_least(Duration length) { return length - length / 1'000'000 * (kMostDriftPpm + 1); }

// A round that was before the coordinator's time comes back member by member, and no node without a
// session is in it. A round that was just sealed has all its members.
bool is_restored(const State& state) {
  return state.seal && state.seal->round == state.round &&
         state.seal->world_size != static_cast<std::int64_t>(state.participants.size());
}

bool on_a_list(const State& state, const NodeId& node) {
  return state.participants.contains(node) || state.wait_list.contains(node) ||
         state.redundancy_list.contains(node);
}

}  // namespace

Invariants::Invariants(const Settings& settings, std::size_t nodes, Relaxed relaxed)
    : settings_(settings), relaxed_(relaxed), beliefs_(nodes), latest_(nodes, -1) {}

void Invariants::on_change(Instant now, const NodeId& writer, const State& before,
                           const State& after) {
  check_rounds(before, after);
  const auto as_sealed = sealed_.find(after.round);
  if (!after.complete) {
    check_open(after);
  } else if (as_sealed != sealed_.end()) {
    check_sealed(after, as_sealed->second);
  } else if (!is_restored(after)) {
    check_seal(after);
    check_last_call(now, before, after);
    check_kept_ranks(after);
    sealed_.emplace(after.round, after.participants);
    check_two_rounds(after);
  }
  if (after.deadline != before.deadline) last_call_since_ = now;
  check_lists(after);
  check_drops(now, writer, before, after);
  if (before.closed && !after.closed) violated("a closed run was opened again");
}

void Invariants::on_coordinated(Instant now, const State& before, const State& after,
                                const std::function<bool(const NodeId&)>& is_other) {
  const auto as_sealed = sealed_.find(after.round);
  if (!after.complete) {
    check_open(after);
  } else if (as_sealed != sealed_.end()) {
    check_sealed(after, as_sealed->second);
  } else if (!is_restored(after)) {
    // Its last member may have come back; a seal comes without a last call if all of the round
    // before are there.
    const bool is_seal = !before.complete || before.round != after.round;
    if (is_seal) check_seal(after);
    if (is_seal) check_kept_ranks(after);
    sealed_.emplace(after.round, after.participants);
    check_two_rounds(after);
  }
  if (after.deadline != before.deadline) last_call_since_ = now;
  check_lists(after);
  for (const auto& [node, stamp] : before.last_heartbeats) {
    const auto found = after.last_heartbeats.find(node);
    if (found == after.last_heartbeats.end()) {
      if (is_other(node)) check_silence("the coordinator dropped ", node, now);
    } else if (found->second != stamp && is_other(node)) {
      violated("the coordinator wrote a heartbeat of " + short_name(node));
    }
  }
  if (before.closed && !after.closed) violated("a closed run was opened again");
}

void Invariants::forget_rounds() {
  sealed_.clear();
  heard_.clear();
  holders_.clear();
  std::fill(latest_.begin(), latest_.end(), -1);
}

// A node that was dropped from a round may not know yet. A node on a list has left its old round.
void Invariants::check_two_rounds(const State& state) {
  for (const auto& belief : beliefs_)
    if (belief && belief->round != state.round && sealed_.contains(belief->round) &&
        on_a_list(state, belief->node))
      violated(fmt::format("{} begins while {} is still in {}", round_name(state.round),
                           short_name(belief->node), round_name(belief->round)));
}

void Invariants::check_rounds(const State& before, const State& after) {
  if (after.round < before.round)
    return violated(fmt::format("the round went back from {} to {}", before.round, after.round));
  if (after.round > before.round + 1)
    return violated(
        fmt::format("the round went from {} to {} in one step", before.round, after.round));
  if (after.round > before.round && !before.complete)
    return violated(round_name(before.round) + " was given up before it was sealed");
  if (after.round == before.round && before.complete && !after.complete)
    return violated(round_name(before.round) + " was opened again after it had been sealed");
}

void Invariants::check_open(const State& state) {
  if (sealed_.contains(state.round))
    return violated(round_name(state.round) + " is open though it has been sealed before");
  const auto joined = static_cast<std::int64_t>(state.participants.size());
  if (joined >= settings_.min_nodes && !state.deadline)
    violated(
        fmt::format("{} has {} participants and no last call", round_name(state.round), joined));
  if (joined >= settings_.max_nodes) violated(round_name(state.round) + " is full and still open");
}

void Invariants::check_sealed(const State& state, const Ranks& as_sealed) {
  for (const auto& [node, rank] : state.participants) {
    const auto was = as_sealed.find(node);
    if (was == as_sealed.end())
      return violated(fmt::format("{} came into {} after it had been sealed", short_name(node),
                                  round_name(state.round)));
    if (was->second != rank)
      return violated(fmt::format("the rank of {} in {} changed from {} to {}", short_name(node),
                                  round_name(state.round), was->second, rank));
  }
}

void Invariants::check_seal(const State& after) {
  const std::string round = round_name(after.round);
  const auto world = static_cast<std::int64_t>(after.participants.size());
  std::set<std::int64_t> ranks;
  for (const auto& [node, rank] : after.participants) ranks.insert(rank);
  if (static_cast<std::int64_t>(ranks.size()) != world || *ranks.begin() != 0 ||
      *ranks.rbegin() != world - 1)
    return violated(fmt::format("the ranks of {} are not 0..{}: {}", round, world - 1,
                                describe(after, settings_)));
  if (world < settings_.min_nodes || world > settings_.max_nodes)
    return violated(fmt::format("{} was sealed with {} nodes, outside {}..{}", round, world,
                                settings_.min_nodes, settings_.max_nodes));
  if (world == settings_.max_nodes && !after.wait_list.empty() && !relaxed_.waits)
    violated(
        fmt::format("{} was sealed full, and {} still waits: its members would meet again for a "
                    "node that has no place",
                    round, short_name(*after.wait_list.begin())));
}

void Invariants::check_last_call(Instant now, const State& before, const State& after) {
  const auto world = static_cast<std::int64_t>(after.participants.size());
  if (world == settings_.max_nodes || relaxed_.clocks) return;
  const Duration lasted = now - last_call_since_;
  if (!before.deadline || lasted < at_least(settings_.last_call_timeout))
    violated(fmt::format("{} was sealed {} after the last call began; it lasts {}",
                         round_name(after.round), seconds(lasted),
                         seconds(settings_.last_call_timeout)));
}

// In a round as large as the last one, its members keep their ranks, unless wishes interfere.
void Invariants::check_kept_ranks(const State& state) {
  std::int64_t last = -1;
  for (const auto& [node, rank] : state.participants) {
    const auto claim = state.claims.find(node);
    if (claim == state.claims.end() || claim->second.wish) return;
    if (claim->second.held) last = std::max(last, claim->second.held->round);
  }
  const auto world = static_cast<std::int64_t>(state.participants.size());
  // After a store that was lost rounds are counted from 0 again, and two may have held one rank.
  std::set<std::int64_t> ranks;
  for (const auto& [node, rank] : state.participants)
    if (const auto& held = state.claims.at(node).held; held && held->round == last &&
                                                       held->world_size == world &&
                                                       !ranks.insert(held->rank).second)
      return;
  for (const auto& [node, rank] : state.participants) {
    const auto& held = state.claims.at(node).held;
    if (held && held->round == last && held->world_size == world && held->rank != rank)
      return violated(fmt::format("{} had rank {} of {} in round {} and lost it in {}",
                                  short_name(node), held->rank, world, last,
                                  round_name(state.round)));
  }
}

void Invariants::check_lists(const State& state) {
  if (state.closed) return;  // The coordinator reports no node lost twice there.
  std::size_t listed = 0;
  for (const auto& [node, stamp] : state.last_heartbeats) {
    const int lists = static_cast<int>(state.participants.contains(node)) +
                      static_cast<int>(state.wait_list.contains(node)) +
                      static_cast<int>(state.redundancy_list.contains(node));
    listed += static_cast<std::size_t>(lists);
    if (lists > 1) return violated(short_name(node) + " is on two lists");
    if (lists == 0) return violated(short_name(node) + " has a heartbeat and is on no list");
  }
  if (listed != state.participants.size() + state.wait_list.size() + state.redundancy_list.size())
    return violated("a node is on a list without a heartbeat: it would stay there for ever");
  for (const auto& [node, claim] : state.claims)
    if (!on_a_list(state, node))
      return violated(short_name(node) + " has a claim and is on no list");
}

void Invariants::check_drops(Instant now, const NodeId& writer, const State& before,
                             const State& after) {
  for (const auto& [node, stamp] : before.last_heartbeats) {
    if (after.last_heartbeats.contains(node) || node == writer || relaxed_.clocks) continue;
    check_silence(short_name(writer) + " dropped ", node, now);
  }
  for (const auto& [node, stamp] : after.last_heartbeats) {
    const auto old = before.last_heartbeats.find(node);
    if (old != before.last_heartbeats.end() && old->second == stamp) continue;
    heard_[node].push_back(now);
    if (node != writer)
      violated(fmt::format("{} wrote a heartbeat of {}", short_name(writer), short_name(node)));
  }
}

void Invariants::check_silence(const std::string& verdict, const NodeId& node, Instant at) {
  const auto& beats = heard_[node];
  const auto next = std::upper_bound(beats.begin(), beats.end(), at);
  if (next == beats.begin()) return;
  const Duration silent = at - *std::prev(next);
  if (silent < at_least(settings_.silence_limit()))
    violated(fmt::format("{}{}, whose last heartbeat came {} ago; the limit is {}", verdict,
                         short_name(node), seconds(silent), seconds(settings_.silence_limit())));
}

void Invariants::on_condemned(const NodeId& judge, const NodeId& node, Instant seen) {
  check_silence(short_name(judge) + " took for dead ", node, seen);
}

void Invariants::on_joined(std::size_t seat, const NodeId& node, const State& joined) {
  ++joins_;
  const std::string who = fmt::format("{} joined {}", short_name(node), round_name(joined.round));
  if (beliefs_[seat])
    return violated(fmt::format("{} while it still was in round {}", who, beliefs_[seat]->round));
  const bool twice = joined.round == latest_[seat];
  if (joined.round < latest_[seat] || (twice && !relaxed_.worlds))
    return violated(fmt::format("{} after it had been in round {}", who, latest_[seat]));
  const auto sealed = sealed_.find(joined.round);
  if (sealed == sealed_.end()) return violated(who + ", which was never sealed");
  const auto mine = joined.participants.find(node);
  if (mine == joined.participants.end()) return violated(who + " without being in it");
  for (const auto& [other, rank] : joined.participants) {
    const auto was = sealed->second.find(other);
    if (was == sealed->second.end() || was->second != rank)
      return violated(fmt::format("{} and takes {} for rank {}, which it is not", who,
                                  short_name(other), rank));
  }
  if (joined.participants.size() != sealed->second.size() && !relaxed_.worlds)
    return violated(fmt::format("{} with a world of {}; it was sealed with {}", who,
                                joined.participants.size(), sealed->second.size()));

  latest_[seat] = joined.round;
  beliefs_[seat] = Belief{.node = node, .round = joined.round, .rank = mine->second};
  if (holders_.try_emplace({joined.round, mine->second}, seat).first->second != seat)
    violated(fmt::format("{} as rank {}, which another machine holds", who, mine->second));
}

void Invariants::on_join_timed_out(const NodeId& node, Duration after) {
  if (after < settings_.join_timeout)
    violated(fmt::format("{} gave its join up after {} of its {}", short_name(node), seconds(after),
                         seconds(settings_.join_timeout)));
}

void Invariants::on_busy(const NodeId& node, std::int64_t requests) {
  violated(fmt::format("{} sent {} requests within a second", short_name(node), requests));
}

}  // namespace regroup::sim
