#include "sim/node/rounds_at_work.h"

#include <fmt/core.h>

#include <algorithm>

#include "sim/world/trace.h"

namespace regroup::sim {

std::optional<std::string> RoundsAtWork::began(std::size_t node, Round round, Instant now) {
  std::optional<std::string> wrong;
  if (nodes_[node])
    wrong = fmt::format("starts the workers of round {} beside those of round {}", round.number,
                        nodes_[node]->round.number);
  nodes_[node] = Work{.round = round};
  latest_ = std::max(latest_.value_or(round), round);
  for (auto& work : nodes_)
    if (work && work->round < *latest_ && !work->superseded) work->superseded = now;
  return wrong;
}

std::optional<std::string> RoundsAtWork::look(
    Instant now, const std::function<Duration(std::size_t node)>& undisturbed) {
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    const auto& work = nodes_[node];
    if (!work || !work->superseded) continue;
    const Duration beside = std::min(now - *work->superseded, undisturbed(node));
    slowest_ = std::max(slowest_, beside);
    if (beside > longest_)
      return fmt::format("the workers of round {} still live {} after those of round {} began",
                         work->round.number, seconds(now - *work->superseded), latest_->number);
  }
  return std::nullopt;
}

}  // namespace regroup::sim
