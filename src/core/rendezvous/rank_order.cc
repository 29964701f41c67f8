#include "core/rendezvous/rank_order.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/text_parts.h"

namespace regroup::core::rendezvous {
namespace {

struct Member {
  NodeId node;
  const Claim* claim;
};

// The order before anything else is known: wishes in their order, then groups, then names.
bool comes_before(const Member& a, const Member& b) {
  const auto wish = [](const Member& member) {
    return std::pair(!member.claim->wish, member.claim->wish.value_or(0));
  };
  if (wish(a) != wish(b)) return wish(a) < wish(b);
  if (natural_less(a.claim->group, b.claim->group)) return true;
  if (natural_less(b.claim->group, a.claim->group)) return false;
  if (natural_less(a.claim->name, b.claim->name)) return true;
  if (natural_less(b.claim->name, a.claim->name)) return false;
  if (natural_less(a.node.address, b.node.address)) return true;
  if (natural_less(b.node.address, a.node.address)) return false;
  return a.node < b.node;
}

// The ranks of a round, in blocks of one group each.
class Seats {
 public:
  Seats(const std::vector<Member>& members, std::int64_t segment)
      : block_size_(segment > 0 ? static_cast<std::size_t>(segment) : 1),
        has_groups_(segment > 0),
        seats_(members.size(), nullptr),
        owners_(members.size() / block_size_, nullptr) {
    CHECK(members.size() % block_size_ == 0);
    for (const Member& member : members) group_of(member).open_blocks += 1;
    for (auto& [name, group] : groups_) {
      CHECK(group.open_blocks % block_size_ == 0);
      group.open_blocks /= block_size_;
    }
  }

  // False: it cannot have this seat, or another node has it.
  bool take(std::int64_t rank, const Member& member) {
    const auto seat = static_cast<std::size_t>(rank);
    if (rank < 0 || seat >= seats_.size() || seats_[seat] != nullptr) return false;
    Group& group = group_of(member);
    Group*& owner = owners_[seat / block_size_];
    if (owner == nullptr && group.open_blocks > 0) {
      owner = &group;
      group.open_blocks -= 1;
    }
    if (owner != &group) return false;
    seats_[seat] = &member;
    return true;
  }

  // What is free in a block that has an owner belongs to that owner.
  void open_holes() {
    for (std::size_t seat = seats_.size(); seat-- > 0;)
      if (Group* owner = owners_[seat / block_size_]; owner != nullptr && seats_[seat] == nullptr)
        owner->holes.push_back(seat);
  }

  // A hole in a block of its group, or a block without an owner.
  void take_next(const Member& member) {
    Group& group = group_of(member);
    if (group.holes.empty()) {
      while (owners_[next_block_] != nullptr) ++next_block_;
      owners_[next_block_] = &group;
      for (std::size_t i = block_size_; i-- > 0;)
        group.holes.push_back(next_block_ * block_size_ + i);
    }
    seats_[group.holes.back()] = &member;
    group.holes.pop_back();
  }

  const std::vector<const Member*>& all() const { return seats_; }

 private:
  struct Group {
    std::size_t open_blocks = 0;     // That it has still to get.
    std::vector<std::size_t> holes;  // The lowest is last.
  };
  // Without segments, all nodes are in one.
  Group& group_of(const Member& member) { return groups_[has_groups_ ? member.claim->group : ""]; }

  const std::size_t block_size_;
  const bool has_groups_;
  std::map<std::string, Group> groups_;
  std::vector<const Member*> seats_;
  std::vector<Group*> owners_;
  std::size_t next_block_ = 0;
};

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i;
      ++j;
      continue;
    }
    const auto digits_at = [](std::string_view text, std::size_t& at) {
      while (at < text.size() && text[at] == '0') ++at;
      const std::size_t begin = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      return text.substr(begin, at - begin);
    };
    const std::string_view left = digits_at(a, i);
    const std::string_view right = digits_at(b, j);
    if (left.size() != right.size()) return left.size() < right.size();
    if (left != right) return left < right;
  }
  if (i < a.size() || j < b.size()) return i == a.size();
  // Equal as numbers: "n1" and "n01". Any order will do, as long as it is one.
  return a < b;
}

std::vector<NodeId> rank_order(const State& state, std::int64_t segment) {
  std::vector<Member> members;
  bool all_regroup = true;
  for (const auto& [node, rank] : state.participants) {
    const auto claim = state.claims.find(node);
    all_regroup &= claim != state.claims.end();
    members.push_back({node, all_regroup ? &claim->second : nullptr});
  }
  std::vector<NodeId> order;
  order.reserve(members.size());
  if (!all_regroup) {
    for (Member& member : members) order.push_back(std::move(member.node));
    return order;
  }

  std::sort(members.begin(), members.end(), comes_before);
  Seats seats(members, segment);

  // Only one round's ranks are kept, the latest that any node was in: seats of older ones may have
  // been given away since.
  std::int64_t last_round = -1;
  for (const Member& member : members)
    if (member.claim->held) last_round = std::max(last_round, member.claim->held->round);

  std::vector<const Member*> rest;
  for (const Member& member : members)
    if (!member.claim->wish || !seats.take(*member.claim->wish, member)) rest.push_back(&member);
  std::vector<const Member*> others;
  const auto world = static_cast<std::int64_t>(members.size());
  for (const Member* member : rest) {
    const auto& held = member->claim->held;
    const bool keeps = held && held->round == last_round && held->world_size == world;
    if (!keeps || !seats.take(held->rank, *member)) others.push_back(member);
  }
  seats.open_holes();
  for (const Member* member : others) seats.take_next(*member);
  for (const Member* seat : seats.all()) order.push_back(seat->node);
  return order;
}

}  // namespace regroup::core::rendezvous
