#include "core/coordinator/segments.h"

#include <fmt/core.h>

#include <algorithm>

namespace regroup::core::coordinator {

namespace {

bool is_loose(const Segments::Standing& standing) {
  return standing.is_joining && !standing.is_member;
}

}  // namespace

std::string Segments::why_refused(std::int64_t its_size, const std::string& its_group) const {
  if (its_size > 0 && its_size != size_)
    return fmt::format("this node was started with --segment {}, and this run {}", its_size,
                       are_wanted() ? fmt::format("has {}", size_) : "was begun without it");
  if (!are_wanted() || !its_group.empty()) return "";
  return fmt::format(
      "in this run are only whole groups of {} nodes (--segment), and this node does not say which "
      "is its own (--topology-key)",
      size_);
}

void Segments::add(const std::string& group, const NodeId& node) {
  groups_[group].nodes.insert(node);
}

void Segments::wants_in(const std::string& group, const NodeId& node) {
  Group& its_group = groups_.at(group);
  its_group.loose.insert(node);
  its_group.fresh.push_back(node);
  changed_.insert(group);
}

void Segments::has_left(const std::string& group) { groups_.at(group).has_lost_one = true; }

void Segments::remove(const std::string& group, const NodeId& node) {
  const auto found = groups_.find(group);
  changed_.insert(group);
  found->second.has_lost_one = true;
  found->second.loose.erase(node);
  found->second.nodes.erase(node);
  if (found->second.nodes.empty()) groups_.erase(found);
}

Segments::Changed Segments::take_changed(const StandingOf& standing_of, bool round_is_open) {
  Changed changed;
  for (const std::string& name : std::exchange(changed_, {})) {
    const auto found = groups_.find(name);
    if (found == groups_.end()) continue;
    changed.groups.insert(name);
    if (!std::exchange(found->second.has_lost_one, false) || !round_is_open) continue;
    for (const NodeId& node : take_broken(name, found->second, standing_of))
      changed.broken.push_back(node);
  }
  if (!changed.broken.empty())  // Others may get their places.
    for (const auto& [name, group] : groups_) changed.groups.insert(name);
  return changed;
}

std::vector<Segments::NodeId> Segments::take_broken(const std::string& name, Group& group,
                                                    const StandingOf& standing_of) {
  std::vector<std::pair<std::int64_t, NodeId>> in;  // By their turn.
  for (const NodeId& node : group.nodes)
    if (const Standing standing = standing_of(node); standing.is_member)
      in.emplace_back(standing.preference.second, node);
  std::sort(in.begin(), in.end());
  std::vector<NodeId> broken;
  for (std::size_t odd = in.size() % static_cast<std::size_t>(size_); odd > 0; --odd) {
    wants_in(name, in.back().second);
    broken.push_back(std::move(in.back().second));
    in.pop_back();
  }
  return broken;
}

Segments::Placing Segments::place(const Changed& changed, std::int64_t room,
                                  const StandingOf& standing_of) {
  // As many nodes of one group as a segment has. Where a member is among them, the others help it
  // to stay: segments are sorted by their best node, then by their last one.
  using Segment = std::pair<std::pair<int, Preference>, std::vector<NodeId>>;
  std::vector<Segment> segments;
  std::vector<NodeId> odd;
  const auto size = static_cast<std::size_t>(size_);
  for (const std::string& name : changed.groups) {
    Group& group = groups_.at(name);
    const auto fresh = std::exchange(group.fresh, {});
    if (room < size_ || group.loose.size() < size) {
      for (const NodeId& node : fresh)
        if (group.nodes.contains(node) && is_loose(standing_of(node))) odd.push_back(node);
      continue;
    }
    std::vector<std::pair<Preference, NodeId>> order;
    std::erase_if(group.loose, [&](const NodeId& node) {
      const Standing standing = standing_of(node);
      if (is_loose(standing)) order.emplace_back(standing.preference, node);
      return !is_loose(standing);
    });
    std::sort(order.begin(), order.end());
    std::size_t next = 0;
    for (; order.size() - next >= size; next += size) {
      Segment& segment = segments.emplace_back(
          std::pair(order[next].first.first, order[next + size - 1].first), std::vector<NodeId>{});
      for (std::size_t i = next; i < next + size; ++i) segment.second.push_back(order[i].second);
    }
    for (; next < order.size(); ++next) odd.push_back(order[next].second);
  }
  std::sort(segments.begin(), segments.end());

  Placing placing;
  for (const auto& [order, nodes] : segments) {
    const bool fits = room >= size_;
    if (fits) room -= size_;
    auto& into = fits ? placing.let_in : placing.spares;
    into.insert(into.end(), nodes.begin(), nodes.end());
  }
  placing.spares.insert(placing.spares.end(), odd.begin(), odd.end());
  return placing;
}

std::int64_t Segments::odd_in(const std::string& group, const StandingOf& standing_of) const {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return 0;
  const auto& nodes = found->second.nodes;
  return std::count_if(nodes.begin(), nodes.end(),
                       [&](const NodeId& node) {
                         const Standing standing = standing_of(node);
                         return standing.is_member || standing.is_joining;
                       }) %
         size_;
}

std::string Segments::describe_broken(const StandingOf& standing_of) const {
  constexpr int kMostNamed = 8;
  int named = 0;
  std::string text;
  for (const auto& [name, group] : groups_) {
    const std::int64_t odd = odd_in(name, standing_of);
    if (odd == 0) continue;
    if (++named > kMostNamed) return text + ", ...";
    text += fmt::format("{}{} ({} of {})", text.empty() ? "; not whole: " : ", ", name, odd, size_);
  }
  return text;
}

}  // namespace regroup::core::coordinator
