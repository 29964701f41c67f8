// Only whole groups are in a round: so many nodes at a time that are near each other (--segment).
//
// The tables of the rendezvous know nothing of it. They are played for a node once its group is
// whole, and for all of that segment one after the other; until then the node stands with the
// spares. So the participants of an open round are whole segments at any time, and minimum, maximum
// and last call mean what they always do.
//
//   Segments::Changed changed = segments.take_changed(standing_of, round_is_open);
//   ... make spares of changed.broken ...
//   Segments::Placing placing = segments.place(changed, room, standing_of);
//
// It knows which node is in which group, and which of them want to come in. How a node stands in
// the run is asked for by `standing_of`, which has to know every node that was added.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/rendezvous/state.h"

namespace regroup::core::coordinator {

class Segments {
 public:
  explicit Segments(std::int64_t size) : size_(size) {}

  // False: any node may be in a round, and only why_refused() may be called.
  bool are_wanted() const { return size_ > 0; }
  std::int64_t size() const { return size_; }

  // Why a node cannot be in this run, with the group and the --segment that it was started with.
  // Empty: it can.
  std::string why_refused(std::int64_t its_size, const std::string& its_group) const;

  using NodeId = rendezvous::NodeId;
  // Sort order: members of the last round first, then by turn.
  using Preference = std::pair<int, std::int64_t>;
  struct Standing {
    bool is_joining = false;
    bool is_member = false;  // Of the round that is open, or runs.
    Preference preference = {};
  };
  using StandingOf = std::function<Standing(const NodeId&)>;

  void add(const std::string& group, const NodeId& node);
  void wants_in(const std::string& group, const NodeId& node);  // A node that was added.
  void has_left(const std::string& group);  // One of its nodes has left the round and stays added.
  void remove(const std::string& group, const NodeId& node);

  bool have_changed() const { return !changed_.empty(); }
  struct Changed {
    std::vector<NodeId> broken = {};  // In an open round without a whole group.
    std::set<std::string> groups = {};
  };
  // Each change is taken once. When a group is not whole any more, the nodes that came last are
  // broken: they leave the round and want to get in again.
  Changed take_changed(const StandingOf& standing_of, bool round_is_open);

  struct Placing {
    std::vector<NodeId> let_in = {};  // In this order.
    std::vector<NodeId> spares = {};
  };
  // `room`: for how many nodes there is room.
  Placing place(const Changed& changed, std::int64_t room, const StandingOf& standing_of);

  // How many nodes of the group are in, or want to be, beyond whole segments.
  std::int64_t odd_in(const std::string& group, const StandingOf& standing_of) const;
  // "; not whole: rack-1 (1 of 4), rack-7 (3 of 4)"; empty if all are whole.
  std::string describe_broken(const StandingOf& standing_of) const;

 private:
  struct Group {
    std::set<NodeId> nodes = {};
    // Nodes that want to be in and are not. Those that changed their mind are removed when the
    // group is placed.
    std::set<NodeId> loose = {};
    std::vector<NodeId> fresh = {};  // Those of them that came since the group was placed last.
    bool has_lost_one = false;       // A node was lost since the group was placed last.
  };
  std::vector<NodeId> take_broken(const std::string& name, Group& group,
                                  const StandingOf& standing_of);

  const std::int64_t size_;
  std::map<std::string, Group> groups_;
  std::set<std::string> changed_;  // To be placed.
};

}  // namespace regroup::core::coordinator
