#include "core/rendezvous/rank_order.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace regroup::core::rendezvous {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Member {
  NodeId node;
  const Claim* claim;
};

// Before everything else is said: wishes in their order, then names.
bool comes_before(const Member& a, const Member& b) {
  const auto wish = [](const Member& member) {
    return std::pair(!member.claim->wish, member.claim->wish.value_or(0));
  };
  if (wish(a) != wish(b)) return wish(a) < wish(b);
  if (natural_less(a.claim->name, b.claim->name)) return true;
  if (natural_less(b.claim->name, a.claim->name)) return false;
  if (natural_less(a.node.address, b.node.address)) return true;
  if (natural_less(b.node.address, a.node.address)) return false;
  return a.node < b.node;
}

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

std::vector<NodeId> rank_order(const State& state) {
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
  const auto world = static_cast<std::int64_t>(members.size());
  std::vector<const Member*> seats(members.size(), nullptr);
  const auto take = [&](std::int64_t rank, const Member& member) {
    if (rank < 0 || rank >= world || seats[static_cast<std::size_t>(rank)]) return false;
    seats[static_cast<std::size_t>(rank)] = &member;
    return true;
  };

  // Only one round's ranks are kept, the latest that anybody was in: seats of older ones may have
  // been given away since.
  std::int64_t last_round = -1;
  for (const Member& member : members)
    if (member.claim->held) last_round = std::max(last_round, member.claim->held->round);

  std::vector<const Member*> rest;
  for (const Member& member : members)
    if (!member.claim->wish || !take(*member.claim->wish, member)) rest.push_back(&member);
  std::vector<const Member*> others;
  for (const Member* member : rest) {
    const auto& held = member->claim->held;
    const bool keeps = held && held->round == last_round && held->world_size == world;
    if (!keeps || !take(held->rank, *member)) others.push_back(member);
  }
  auto next = others.begin();
  for (const Member*& seat : seats)
    if (!seat) seat = *next++;
  for (const Member* seat : seats) order.push_back(seat->node);
  return order;
}

}  // namespace regroup::core::rendezvous
