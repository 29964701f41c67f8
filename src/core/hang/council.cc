#include "core/hang/council.h"

#include <utility>

namespace regroup::core::hang {

std::optional<bool> Council::on_stalled(std::int64_t node, std::optional<Votes> votes) {
  if (node < 0 || node >= nodes_) return std::nullopt;
  std::optional<Report>& report = reports_.try_emplace(node, Report{}).first->second;
  if (!report) return std::nullopt;
  if (counts(*report)) {
    --counting_;
    all_.suspects -= report->votes->suspects;
    all_.spinning -= report->votes->spinning;
  }
  report->votes = votes;
  if (std::exchange(report->ends, ends_) != ends_) report->looks = 0;
  // Workers that have moved since the last end do not wait for it any more: their next stall is a
  // new one.
  report->looks = votes ? report->looks + 1 : kLooksAfterAnEnd;
  if (counts(*report)) {
    ++counting_;
    all_.suspects += votes->suspects;
    all_.spinning += votes->spinning;
  }
  return judge();
}

std::optional<bool> Council::on_ended(std::int64_t node) {
  if (node < 0 || node >= nodes_) return std::nullopt;
  const auto [found, is_new] = reports_.try_emplace(node);
  if (!is_new && !found->second) return std::nullopt;
  found->second.reset();
  return on_missing(1);
}

std::optional<bool> Council::on_missing(std::int64_t nodes) {
  if (nodes == 0) return std::nullopt;
  ends_ += nodes;
  // No report counts that was made before.
  counting_ = 0;
  all_ = {};
  return judge();
}

std::optional<bool> Council::judge() {
  const bool now = counting_ == nodes_ - ends_ && is_hang(all_);
  if (now == hangs_) return std::nullopt;
  hangs_ = now;
  named_ = false;
  if (!hangs_) where_.clear();
  return hangs_;
}

std::optional<Blame> Council::on_where(std::int64_t node, std::vector<RankAt> ranks) {
  if (!hangs_ || node < 0 || node >= nodes_) return std::nullopt;
  where_.insert_or_assign(node, std::move(ranks));
  if (static_cast<std::int64_t>(where_.size()) < nodes_ - ends_) return std::nullopt;
  std::vector<RankAt> all;
  for (auto& [from, lot] : std::exchange(where_, {}))
    for (RankAt& one : lot) all.push_back(std::move(one));
  Blame found = blame(all);
  named_ = found.rank.has_value();
  return found;
}

}  // namespace regroup::core::hang
