// The nodes of one round agree whether it hangs, and on who is to blame: each says whether its
// workers are stalled, and, once all say so, where they are.
//
// A pure machine, beside whoever hears all of them. A node speaks for itself, as often as it likes;
// what it said last counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/hang/blame.h"
#include "core/hang/hang.h"

namespace regroup::core::hang {

class Council {
 public:
  explicit Council(std::int64_t nodes) : nodes_(nodes) {}

  // `node`: its rank. Empty: its workers get somewhere. Returns whether all together hang, if that
  // has changed.
  std::optional<bool> on_stalled(std::int64_t node, std::optional<Votes> votes);

  // Where the ranks of the node are. Once all nodes have said so: who is to blame; once only.
  std::optional<Blame> on_where(std::int64_t node, std::vector<RankAt> ranks);

  bool hangs() const { return hangs_; }

 private:
  std::int64_t nodes_;
  std::map<std::int64_t, Votes> votes_;
  Votes all_;
  bool hangs_ = false;
  std::map<std::int64_t, std::vector<RankAt>> where_;
};

}  // namespace regroup::core::hang
