// Only whole groups are in a round: so many nodes at a time that are near each other (--segment).
//
// The tables of the rendezvous know nothing of it. They are played for a node once its group is
// whole, and for all of that group one after the other; until then the node stands with the spares.
// So the participants of an open round are whole groups at any time, and minimum, maximum and last
// call mean what they always do.
#include <algorithm>
#include <utility>

#include "core/coordinator/coordinator.h"

namespace regroup::core::coordinator {

using namespace rendezvous;

std::string why_not(const Rules& rules) {
  if (rules.min_nodes > rules.max_nodes) return "its minimum of nodes is above the maximum";
  if (rules.segment > 0 &&
      (rules.min_nodes % rules.segment != 0 || rules.max_nodes % rules.segment != 0))
    return "its numbers of nodes are no multiples of --segment";
  return "";
}

std::string Coordinator::why_not_grouped(const Hello& hello) const {
  if (hello.rules.segment > 0 && hello.rules.segment != rules_.segment)
    return "this node was started with --segment " + std::to_string(hello.rules.segment) +
           ", and this run " +
           (has_segments() ? "has " + std::to_string(rules_.segment) : "was begun without it");
  if (!has_segments() || !hello.claim.group.empty()) return "";
  return "in this run are only whole groups of " + std::to_string(rules_.segment) +
         " nodes (--segment), and this node does not say which is its own (--topology-key)";
}

void Coordinator::joins_group(const Node& node) {
  Group& group = groups_.at(node.claim.group);
  group.loose.insert(node.id);
  group.fresh.push_back(node.id);
  changed_groups_.insert(node.claim.group);
}

void Coordinator::place_groups(Now now) {
  if (!has_segments() || hold_until_ || state_.closed || changed_groups_.empty()) return;
  // A round that is being stopped is left by its members one by one. Then the next is open, and all
  // are placed.
  if (state_.complete && !is_running()) return;
  std::vector<Group*> groups;
  bool any_dropped = false;
  for (const std::string& name : std::exchange(changed_groups_, {})) {
    const auto found = groups_.find(name);
    if (found == groups_.end()) continue;
    any_dropped |= std::exchange(found->second.has_lost, false) && drop_the_odd(found->second, now);
    groups.push_back(&found->second);
  }
  if (any_dropped) {  // Others may have their places.
    groups.clear();
    for (auto& [name, group] : groups_) groups.push_back(&group);
  }

  // Nodes of one group, as many as a segment has. Where a member is among them, the others help it
  // to stay.
  using Segment = std::pair<std::pair<int, Preference>, std::vector<const Node*>>;
  std::vector<Segment> segments;
  std::vector<const Node*> odd;
  const auto size = static_cast<std::size_t>(rules_.segment);
  std::int64_t room = rules_.max_nodes - static_cast<std::int64_t>(state_.participants.size());
  for (Group* group : groups) {
    const auto fresh = std::exchange(group->fresh, {});
    if (room < rules_.segment || group->loose.size() < size) {
      for (const NodeId& id : fresh)
        if (const auto found = nodes_.find(id); found != nodes_.end() && is_loose(found->second))
          odd.push_back(&found->second);
      continue;
    }
    const std::vector<const Node*> loose = take_loose(*group);
    std::vector<std::pair<Preference, const Node*>> order;
    order.reserve(loose.size());
    for (const Node* node : loose) order.emplace_back(preference(*node), node);
    std::sort(order.begin(), order.end());
    std::size_t next = 0;
    for (; order.size() - next >= size; next += size) {
      const Preference& best = order[next].first;
      Segment& segment =
          segments.emplace_back(std::pair(best.first, order[next + size - 1].first), 0);
      for (std::size_t i = next; i < next + size; ++i) segment.second.push_back(order[i].second);
    }
    for (; next < order.size(); ++next) odd.push_back(order[next].second);
  }
  std::sort(segments.begin(), segments.end());

  // Where a round runs, those who fit wait for the next, and are a reason for it.
  for (const auto& [order, nodes] : segments) {
    const bool fits = room >= rules_.segment;
    if (fits) room -= rules_.segment;
    for (const Node* node : nodes)
      if (fits)
        settle(*node, Operation::Join, now);
      else
        make_spare(*node, now);
  }
  for (const Node* node : odd) make_spare(*node, now);
}

std::vector<const Coordinator::Node*> Coordinator::take_loose(Group& group) const {
  std::vector<const Node*> loose;
  std::erase_if(group.loose, [&](const NodeId& id) {
    const Node& node = nodes_.at(id);
    if (is_loose(node)) loose.push_back(&node);
    return !is_loose(node);
  });
  return loose;
}

// Takes out of an open round whoever is in it without a whole group; the last to have come first.
bool Coordinator::drop_the_odd(Group& group, Now now) {
  if (state_.complete) return false;
  std::vector<std::pair<std::int64_t, const Node*>> in;
  for (const NodeId& id : group.nodes)
    if (state_.participants.contains(id)) in.emplace_back(nodes_.at(id).arrived, &nodes_.at(id));
  std::size_t too_many = in.size() % static_cast<std::size_t>(rules_.segment);
  const bool any = too_many > 0;
  std::sort(in.begin(), in.end());
  for (; too_many > 0; --too_many) {
    make_spare(*in.back().second, now);
    joins_group(*in.back().second);
    in.pop_back();
  }
  return any;
}

void Coordinator::make_spare(const Node& node, Now now) {
  if (state_.redundancy_list.contains(node.id)) return;
  const Actor actor{.node = node.id, .claim = node.claim, .utc = now.utc};
  if (state_.participants.contains(node.id))
    state_ = apply(std::move(state_), Action::RemoveFromParticipants, actor, settings_);
  state_ = apply(std::move(state_), Action::AddToRedundancyList, actor, settings_);
}

std::int64_t Coordinator::here(const std::string& group) const {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return 0;
  const auto& nodes = found->second.nodes;
  return std::count_if(nodes.begin(), nodes.end(), [this](const NodeId& id) {
    return state_.participants.contains(id) || nodes_.at(id).doing == Doing::Joining;
  });
}

std::string Coordinator::broken_groups() const {
  constexpr int kMostNamed = 8;
  int named = 0;
  std::string text;
  for (const auto& [group, unused] : groups_) {
    const std::int64_t odd = here(group) % rules_.segment;
    if (odd == 0) continue;
    if (++named > kMostNamed) return text + ", ...";
    text += (text.empty() ? "; not whole: " : ", ") + group + " (" + std::to_string(odd) + " of " +
            std::to_string(rules_.segment) + ")";
  }
  return text;
}

Progress Coordinator::progress_of(const Node& node, Instant now,
                                  std::optional<std::string>& of_round) const {
  const Wait wait = waiting(node.id, now);
  const bool is_spare = state_.redundancy_list.contains(node.id);
  Progress progress{.text = {}, .brief = {}, .last_call = {}, .spare = is_spare};
  if (wait.last_call_end && !state_.complete)
    progress.last_call = std::max(*wait.last_call_end - now, Duration{});
  const auto members = static_cast<std::int64_t>(state_.participants.size());
  const std::int64_t odd = has_segments() ? here(node.claim.group) % rules_.segment : 0;
  if (!is_spare || odd == 0 || members + rules_.segment > rules_.max_nodes) {
    progress.text = describe_progress(wait);
    progress.brief = describe_briefly(wait);
    return progress;
  }
  const NodeId nobody;
  if (!of_round)
    of_round = state_.complete ? "round " + std::to_string(state_.round) + " runs with " +
                                     std::to_string(members) + (members == 1 ? " node" : " nodes")
                               : describe_progress(waiting(nobody, now));
  const std::string of_group = std::to_string(odd) + " of " + std::to_string(rules_.segment) +
                               " nodes of group " + node.claim.group + " here";
  progress.text = *of_round + "; this node waits for its group: " + of_group;
  progress.brief = "waiting for the group: " + of_group;
  // While a round runs it is a spare as any other; before, the time to join is what it waits.
  progress.spare = state_.complete;
  return progress;
}

}  // namespace regroup::core::coordinator
