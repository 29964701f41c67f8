// Whether the round hangs, and which rank is to blame, put together from what its nodes say: each
// says whether its workers are stalled, and, once all do, where its ranks are.
//
// A pure machine, on the side that hears all nodes. A node reports on itself, as often as it likes;
// its last report counts.
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

  // `node`: its rank. Empty: its workers make progress. Returns whether all together hang, if that
  // has changed.
  std::optional<bool> on_stalled(std::int64_t node, std::optional<Votes> votes);

  // Where the ranks of the node are. Once all nodes have said it, returns which rank is to blame;
  // once only.
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
