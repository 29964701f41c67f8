// Which rank is to blame for a hang, judged by where the ranks are. Where that does not tell, no
// rank is named: a wrong name sends people, and `--node-strikes`, after the wrong machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace regroup::core::hang {

// Whether it is certain that a worker waits for no other rank.
enum class Alone {
  Unknown,
  IfStill,  // If its main thread has not run at all for long: no other rank ends a sleep, but a
            // worker may also look for the others' work again and again, and sleep in between.
  Certain,
};

// Where a worker is.
struct Whereabouts {
  // "in all_reduce"; "in read() at loader.py:12 (fetch) under DataLoader", the program's place
  // behind " at ", if it is known; "in futex()" if it is not.
  std::string words;
  bool collective = false;  // It waits for other ranks.
  Alone alone = Alone::Unknown;
  bool busy = false;  // It uses CPU time, as one does that spins in a collective.
  friend bool operator==(const Whereabouts&, const Whereabouts&) = default;
};

struct RankAt {
  int rank = 0;
  Whereabouts at;
  friend bool operator==(const RankAt&, const RankAt&) = default;
};

// "ranks 0-2, 4-7 wait in all_reduce; rank 3 is in read() under DataLoader".
std::string where_they_are(const std::vector<RankAt>& ranks);

struct Blame {
  // Empty: nothing is known, or what is known does not tell. Named is a rank
  // - that certainly waits for no other, while others may wait: the first of these;
  // - that is the only one not in a collective;
  // - that is the only one without CPU time, while two others or more spin;
  // - that is in another place of the program than all others, which are two or more in one place;
  // - that is the only one there is.
  std::optional<int> rank = {};
  std::string summary = {};  // where_they_are().
  friend bool operator==(const Blame&, const Blame&) = default;
};

// The result does not depend on the order.
Blame blame(const std::vector<RankAt>& ranks);

}  // namespace regroup::core::hang
