#include "core/coordinator/last_round.h"

#include <utility>

namespace regroup::core::coordinator {

void LastRound::seal(std::int64_t round, std::int64_t world_size, std::set<NodeId> members,
                     std::vector<std::string> names) {
  number_ = round;
  world_size_ = world_size;
  names_ = std::move(names);
  known_names_ = {names_.begin(), names_.end()};
  members_ = std::move(members);
  awaited_ = members_;
  stopped_.reset();
}

void LastRound::restore(std::int64_t round, std::int64_t world_size) {
  number_ = round;
  world_size_ = world_size;
  names_.clear();
  known_names_.clear();
  awaited_.clear();
  stopped_.reset();
}

void LastRound::add_restored(const NodeId& node, const std::string& name) {
  members_.insert(node);
  awaited_.insert(node);
  names_.push_back(name);
  known_names_.insert(name);
}

void LastRound::stop(Stop why) {
  why.round = number_.value_or(0);
  stopped_ = number_;
  why_ = std::move(why);
}

}  // namespace regroup::core::coordinator
