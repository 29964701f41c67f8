// The last round that was sealed, and whether it was told to stop: which nodes were its members,
// and which of them may come back.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/coordinator/messages.h"
#include "core/rendezvous/state.h"

namespace regroup::core::coordinator {

class LastRound {
 public:
  using NodeId = rendezvous::NodeId;

  // A round that was sealed before our time or now. `names`: by rank, as far as they are known.
  void seal(std::int64_t round, std::int64_t world_size, std::set<NodeId> members,
            std::vector<std::string> names);
  // A round that is known only from what its members say as they come back one by one. Its list of
  // names grows with them, because the size of the world is only a claim of one node.
  void restore(std::int64_t round, std::int64_t world_size);
  void add_restored(const NodeId& node, const std::string& name);
  // All that is known of this round is that all its members were here and have left it.
  void left_by_all(std::int64_t round) { number_ = round; }

  bool is(std::int64_t round) const { return number_ == round; }
  std::optional<std::int64_t> number() const { return number_; }  // None: no round was sealed.
  std::int64_t world_size() const { return world_size_; }
  const std::vector<std::string>& names() const { return names_; }

  // The nodes that were sealed in it, or that say so.
  void forget_members() { members_.clear(); }
  void add_member(const NodeId& node) { members_.insert(node); }
  bool had(const NodeId& node) const { return members_.contains(node); }
  bool had_name(const std::string& name) const { return known_names_.contains(name); }

  // A member that has joined again, or is lost, is not waited for.
  void has_come_or_gone(const NodeId& node) { awaited_.erase(node); }
  bool awaits_nobody() const { return number_ && awaited_.empty(); }

  // It is told to stop, or the run has ended, with a round or without. `why` gets its number.
  void stop(Stop why);
  bool is_stopped(std::int64_t round) const { return stopped_ == round; }
  const Stop& why_stopped() const { return why_; }

 private:
  std::optional<std::int64_t> number_;
  std::int64_t world_size_ = 0;
  std::vector<std::string> names_;
  std::set<std::string> known_names_;  // The same names, for lookup.
  std::set<NodeId> members_;
  std::set<NodeId> awaited_;
  std::optional<std::int64_t> stopped_;
  Stop why_;
};

}  // namespace regroup::core::coordinator
