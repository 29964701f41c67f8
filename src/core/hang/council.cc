#include "core/hang/council.h"

#include <utility>

namespace regroup::core::hang {

std::optional<bool> Council::on_stalled(std::int64_t node, std::optional<Votes> votes) {
  if (node < 0 || node >= nodes_) return std::nullopt;
  if (const auto before = votes_.find(node); before != votes_.end()) {
    all_.suspects -= before->second.suspects;
    all_.spinning -= before->second.spinning;
    votes_.erase(before);
  }
  if (votes) {
    all_.suspects += votes->suspects;
    all_.spinning += votes->spinning;
    votes_.emplace(node, *votes);
  }
  const bool all_stalled = static_cast<std::int64_t>(votes_.size()) == nodes_;
  const bool now = all_stalled && is_hang(all_);
  if (now == hangs_) return std::nullopt;
  hangs_ = now;
  if (!hangs_) where_.clear();
  return hangs_;
}

std::optional<Blame> Council::on_where(std::int64_t node, std::vector<RankAt> ranks) {
  if (!hangs_ || node < 0 || node >= nodes_) return std::nullopt;
  where_.insert_or_assign(node, std::move(ranks));
  if (static_cast<std::int64_t>(where_.size()) < nodes_) return std::nullopt;
  std::vector<RankAt> all;
  for (auto& [from, lot] : std::exchange(where_, {}))
    for (RankAt& one : lot) all.push_back(std::move(one));
  return blame(all);
}

}  // namespace regroup::core::hang
