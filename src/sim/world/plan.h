// What a seed makes of a run: its nodes, its settings, how bad its weather is, how it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "core/rendezvous/settings.h"
#include "sim/world/node_clock.h"
#include "sim/world/options.h"

namespace regroup::sim {

// A seeded choice, in the words in which it is made.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  std::uint64_t seed() { return random_.next(); }
  bool chance(double probability) { return random_.fraction() < probability; }
  std::int64_t between(std::int64_t low, std::int64_t high) {  // Both ends are in.
    return low +
           static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(high - low + 1)));
  }
  Duration between(Duration low, Duration high) {
    return low + Duration(static_cast<Duration::rep>(static_cast<double>((high - low).count()) *
                                                     random_.fraction()));
  }

 private:
  SeededRandom random_;
};

struct NodePlan {
  std::string name;
  bool torchrun = false;
  bool exits_first = false;  // Leaves its old round by an operation of its own, as torchrun does.
  NodeClock clock;
  std::int64_t first_beat = 2;  // It comes 1/this of an interval after a join.
  std::optional<std::int64_t> wish;
  Duration starts{};
  std::uint64_t seed = 0;
};

// Chances are per message.
struct Weather {
  double lose_request = 0;
  double lose_answer = 0;
  double double_request = 0;
  double slow = 0;       // Up to a second.
  double very_late = 0;  // Up to `latest`, which is longer than the silence limit.
  double lose_wake = 0;
  double late_wake = 0;
  Duration between_faults{};  // On average. Zero: none.
  double ends_for_good = 0;   // A node that is down when the faults stop stays down.
  double tries_again = 0;     // A join that failed is tried again by the same process.
};

struct Plan {
  core::rendezvous::Settings settings;
  std::vector<NodePlan> nodes;
  FaultLevel faults = FaultLevel::None;
  Weather weather;
  bool has_torchrun = false;
  bool clocks_in_step = false;
  bool closes_early = false;  // One node closes the run while the faults last.
  bool closes = false;        // One node closes the run at the end.

  Duration chaos{};            // How long the faults last.
  Duration request_timeout{};  // A node waits so long for an answer.
  Duration latest{};           // No message takes longer.
  Duration longest_fault{};    // No pause and no partition lasts longer.
  Duration restart_delay{};    // A process that ended is started again within this.
  std::uint64_t seed = 0;      // For what is chosen while the run goes on.
};

inline constexpr std::int64_t kMostDriftPpm = 500;

Plan make_plan(const Options& options);

// Choices that are made in the same way for runs with a coordinator.
std::int64_t choose_node_count(const Options& options, Dice& dice);
// `light`: how many of ten runs have few faults, or none.
FaultLevel choose_faults(const Options& options, std::int64_t light, Dice& dice);
struct RoundSizes {
  std::int64_t min_nodes = 1;
  std::int64_t max_nodes = 1;
};
RoundSizes choose_sizes(std::int64_t nodes, Dice& dice);
// What becomes of messages; `some` draws a chance below the one that it is given.
void choose_message_faults(Weather& weather, const std::function<double(double most)>& some);

// Within this after the faults have stopped, all live nodes must be in one sealed round.
Duration meeting_bound(const Plan& plan);

// Within this after a node has closed the run, all must have ended.
Duration closing_bound(const Plan& plan);

// A plan in one or two lines, for the head of a trace.
std::string describe(const Plan& plan);

}  // namespace regroup::sim
