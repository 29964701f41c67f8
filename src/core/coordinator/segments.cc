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

void Coordinator::place_groups(Now now) {
  if (!has_segments() || hold_until_ || state_.closed) return;
  std::set<std::string> groups = std::exchange(changed_groups_, {});
  if (groups.empty()) return;
  if (state_.complete && !is_running()) {
    // Its members come one by one; when all are out, the next round is open for all.
    for (const std::string& group : groups)
      if (const auto found = groups_.find(group); found != groups_.end())
        for (const NodeId& id : found->second)
          if (const Node& node = nodes_.at(id); node.doing == Doing::Joining)
            settle(node, Operation::Join, now);
    return;
  }
  if (!state_.complete) {
    bool any_dropped = false;
    for (const std::string& group : groups) any_dropped |= drop_the_odd(group, now);
    // Others may have their places.
    if (any_dropped)
      for (const auto& [group, nodes] : groups_) groups.insert(group);
  }

  // Nodes of one group, as many as a segment has, and the preference of the last of them.
  using Segment = std::pair<Preference, std::vector<const Node*>>;
  std::vector<Segment> segments;
  std::vector<const Node*> odd;
  const std::set<std::string> last_names(names_.begin(), names_.end());
  const auto size = static_cast<std::size_t>(rules_.segment);
  for (const std::string& group : groups) {
    const auto found = groups_.find(group);
    if (found == groups_.end()) continue;
    std::vector<std::pair<Preference, const Node*>> loose;
    for (const NodeId& id : found->second)
      if (const Node& node = nodes_.at(id);
          node.doing == Doing::Joining && !state_.participants.contains(id))
        loose.emplace_back(preference(node, last_names), &node);
    std::sort(loose.begin(), loose.end());
    std::size_t next = 0;
    for (; loose.size() - next >= size; next += size) {
      Segment& segment = segments.emplace_back(loose[next + size - 1].first, 0);
      for (std::size_t i = next; i < next + size; ++i) segment.second.push_back(loose[i].second);
    }
    for (; next < loose.size(); ++next) odd.push_back(loose[next].second);
  }
  std::sort(segments.begin(), segments.end());
  // In a round that runs they wait for the next, which is held if there is room for them.
  std::int64_t room = rules_.max_nodes - static_cast<std::int64_t>(state_.participants.size());
  for (const auto& [last, nodes] : segments) {
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

// Takes out of an open round whoever is in it without a whole group; the last to have come first.
bool Coordinator::drop_the_odd(const std::string& group, Now now) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return false;
  std::vector<std::pair<std::int64_t, const Node*>> in;
  for (const NodeId& id : found->second)
    if (state_.participants.contains(id)) in.emplace_back(nodes_.at(id).arrived, &nodes_.at(id));
  std::size_t too_many = in.size() % static_cast<std::size_t>(rules_.segment);
  const bool any = too_many > 0;
  std::sort(in.begin(), in.end());
  for (; too_many > 0; --too_many) {
    make_spare(*in.back().second, now);
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
  return std::count_if(found->second.begin(), found->second.end(), [this](const NodeId& id) {
    return state_.participants.contains(id) || nodes_.at(id).doing == Doing::Joining;
  });
}

std::string Coordinator::broken_groups() const {
  constexpr int kMostNamed = 8;
  int named = 0;
  std::string text;
  for (const auto& [group, nodes] : groups_) {
    const std::int64_t odd = here(group) % rules_.segment;
    if (odd == 0) continue;
    if (++named > kMostNamed) return text + ", ...";
    text += (text.empty() ? "; not whole: " : ", ") + group + " (" + std::to_string(odd) + " of " +
            std::to_string(rules_.segment) + ")";
  }
  return text;
}

Progress Coordinator::progress_of(const Node& node, Instant now) const {
  const Wait wait = waiting(node.id, now);
  const bool is_spare = state_.redundancy_list.contains(node.id);
  Progress progress{.text = describe_progress(wait),
                    .brief = describe_briefly(wait),
                    .last_call = {},
                    .spare = is_spare};
  if (wait.last_call_end && !state_.complete)
    progress.last_call = std::max(*wait.last_call_end - now, Duration{});
  const auto members = static_cast<std::int64_t>(state_.participants.size());
  const std::int64_t odd = has_segments() ? here(node.claim.group) % rules_.segment : 0;
  if (!is_spare || odd == 0 || members + rules_.segment > rules_.max_nodes) return progress;
  const std::string of_group = std::to_string(odd) + " of " + std::to_string(rules_.segment) +
                               " nodes of group " + node.claim.group + " here";
  const NodeId nobody;
  progress.text = state_.complete
                      ? "round " + std::to_string(state_.round) + " runs with " +
                            std::to_string(members) + (members == 1 ? " node" : " nodes")
                      : describe_progress(waiting(nobody, now));
  progress.text += "; this node waits for its group: " + of_group;
  progress.brief = "waiting for the group: " + of_group;
  // While a round runs it is a spare as any other; before, the time to join is what it waits.
  progress.spare = state_.complete;
  return progress;
}

}  // namespace regroup::core::coordinator
