// Which nodes have living workers, and of which round: two rounds of one run must not be at work
// side by side for longer than it takes to tell the nodes of the older one, and to stop them.
//
// Values in, words out: the world says what happens, and asks after every step.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/instant.h"

namespace regroup::sim {

class RoundsAtWork {
 public:
  // Rounds are numbered anew if a coordinator was started again, and no node knew of the time
  // before.
  struct Round {
    std::int64_t life = 0;  // The life of the coordinator that has sealed it.
    std::int64_t number = 0;
    friend auto operator<=>(const Round&, const Round&) = default;
  };

  // `longest`: so long may workers of an older round live once nothing disturbs their node.
  RoundsAtWork(std::size_t nodes, Duration longest) : nodes_(nodes), longest_(longest) {}

  // What is wrong, or nothing.
  std::optional<std::string> began(std::size_t node, Round round, Instant now);
  void ended(std::size_t node) { nodes_[node].reset(); }
  // `undisturbed`: for how long node and coordinator could have heard each other.
  std::optional<std::string> look(Instant now,
                                  const std::function<Duration(std::size_t node)>& undisturbed);

  // How much of `longest` the slowest node has used.
  Duration slowest() const { return slowest_; }

 private:
  struct Work {
    Round round;
    std::optional<Instant> superseded = {};  // Since then a later round has been at work.
  };
  std::vector<std::optional<Work>> nodes_;
  const Duration longest_;
  std::optional<Round> latest_;
  Duration slowest_{};
};

}  // namespace regroup::sim
