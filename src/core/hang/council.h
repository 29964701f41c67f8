// Whether the round hangs, and which rank is to blame, put together from what its nodes say: each
// says whether its workers are stalled, and, once all do, where its ranks are.
//
// A node without workers has nothing more to say, and is not waited for: workers that wait for a
// rank that has ended well wait for ever. Its end is also progress. What another worker waited for
// may just have come, so every stall has to show again that it lasts.
//
// A pure machine, on the side that hears all nodes. A node reports on itself, at every look at its
// workers; its last report counts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/hang/blame.h"
#include "core/hang/hang.h"

namespace regroup::core::hang {

// After the end of a node's workers, a stall of the others counts once it was reported this often
// in a row. That is the whole timeout, or two minutes of a long one.
inline constexpr int kLooksAfterAnEnd = 8;

class Council {
 public:
  explicit Council(std::int64_t nodes) : nodes_(nodes) {}

  // `node`: its rank. Empty: its workers make progress. Returns whether all together hang, if that
  // has changed.
  std::optional<bool> on_stalled(std::int64_t node, std::optional<Votes> votes);

  // The node has no workers any more, and reports no more. Returns the same.
  std::optional<bool> on_ended(std::int64_t node);
  // The same for so many nodes that have never reported.
  std::optional<bool> on_missing(std::int64_t nodes);

  // Where the ranks of the node are. Once all nodes with workers have said it, returns which rank
  // is to blame, or that it cannot be told; once only.
  std::optional<Blame> on_where(std::int64_t node, std::vector<RankAt> ranks);

  bool hangs() const { return hangs_; }
  // All together hang, and a rank was named for it.
  bool named() const { return named_; }

 private:
  struct Report {
    std::optional<Votes> votes;
    std::int64_t ends = 0;  // How many nodes had ended when it was made.
    int looks = 0;          // How often in a row it was made since then.
  };

  bool counts(const Report& report) const {
    return report.votes && report.ends == ends_ && (ends_ == 0 || report.looks >= kLooksAfterAnEnd);
  }
  std::optional<bool> judge();

  std::int64_t nodes_;
  std::int64_t ends_ = 0;
  std::map<std::int64_t, std::optional<Report>> reports_;  // No report: the node has ended.
  Votes all_;                                              // Of the reports that count,
  std::int64_t counting_ = 0;                              // and how many these are.
  bool hangs_ = false;
  bool named_ = false;
  std::map<std::int64_t, std::vector<RankAt>> where_;
};

}  // namespace regroup::core::hang
