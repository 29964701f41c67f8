#include "sim/node/nodes_world.h"

#include <algorithm>
#include <utility>

namespace regroup::sim {

NodesWorld::NodesWorld(const Options& options, Trace trace)
    : NodesWorld(options, make_nodes_plan(options), std::move(trace)) {}

NodesWorld::NodesWorld(const Options& options, NodesPlan plan, Trace trace)
    : CoordinatedWorld(options, plan.session, plan.session.seed ^ 0x40de, std::move(trace)),
      nodes_plan_(std::move(plan)),
      at_work_(plan_.nodes.size(), stopping_bound(nodes_plan_)) {
  SessionSurroundings& here = *this;
  NodeSurroundings& work = *this;
  for (std::size_t index = 0; index < plan_.nodes.size(); ++index)
    add(nodes_.emplace_back(nodes_plan_, static_cast<std::int32_t>(index), options.broken, here,
                            work));
}

void NodesWorld::stepped() {
  look_at_work();
  if (stage_ == Stage::Ending && all_are_gone()) must_have_ended();
}

void NodesWorld::look_at_work() {
  for (std::int32_t index = 0; index < count(); ++index)
    if (!any(index).runs()) at_work_.ended(static_cast<std::size_t>(index));
  const auto undisturbed = [this](std::size_t node) {
    return undisturbed_for(static_cast<std::int32_t>(node));
  };
  if (auto wrong = at_work_.look(now(), undisturbed)) invariants_.violated(std::move(*wrong));
}

std::optional<std::string> NodesWorld::workers_began(std::int32_t index,
                                                     RoundsAtWork::Round round) {
  const auto node = static_cast<std::size_t>(index);
  if (!any(index).runs()) at_work_.ended(node);
  return at_work_.began(node, round, now());
}

bool NodesWorld::is_stuck(std::int64_t round) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [round](const WholeNode& one) {
    return one.runs() == round && one.has_hanging();
  });
}

void NodesWorld::group_failed(std::int32_t failed, std::int64_t round) {
  if (is_stormy()) drag_others(failed, round, nodes_plan_.work.drags_others);
}

}  // namespace regroup::sim
