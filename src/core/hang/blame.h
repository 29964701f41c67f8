// Which rank is to blame for a hang, judged by where the ranks are.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace regroup::core::hang {

// Where a worker is.
struct Whereabouts {
  std::string words;        // "in all_reduce", "in read() at loader.py:12 (fetch) under DataLoader"
  bool collective = false;  // It waits for other ranks.
  friend bool operator==(const Whereabouts&, const Whereabouts&) = default;
};

struct RankAt {
  int rank = 0;
  Whereabouts at;
  friend bool operator==(const RankAt&, const RankAt&) = default;
};

// "ranks 0-2, 4-7 wait in all_reduce; rank 3 is in read() under DataLoader".
std::string where_they_are(const std::vector<RankAt>& ranks);

// The ranks that are somewhere else than the rest: first those that wait for no other while the
// others wait; else the smallest set in one place. Empty: all are in the same place, or no set is
// the smallest.
std::vector<int> odd_ones(const std::vector<RankAt>& ranks);

struct Blame {
  // The first of the odd ones; if there is none, the first rank of all. Empty: nothing is known.
  std::optional<int> rank = {};
  std::string summary = {};  // where_they_are().
  friend bool operator==(const Blame&, const Blame&) = default;
};

// The result does not depend on the order.
Blame blame(const std::vector<RankAt>& ranks);

}  // namespace regroup::core::hang
