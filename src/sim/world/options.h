// What a caller may choose of a simulated run; everything else is chosen by the seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "regroup/result.h"

namespace regroup::sim {

enum class FaultLevel { None, Light, Heavy };

std::string_view to_string(FaultLevel level);

// Worlds that are wrong on purpose: they prove that the invariants can fail. For tests only.
enum class Broken {
  Nothing,
  WallClocks,     // Nodes judge others by wall clock, as torchrun does, and the clocks are apart.
  NoWholeCheck,   // Nodes start with whatever is left of a sealed round, as torchrun does.
  NoTokens,       // The store applies a late swap whatever is there by then.
  NeverSweeps,    // No node is ever found silent.
  HastySweeps,    // A node is found silent after one interval instead of several.
  SmallMinimum,   // Nodes seal with fewer members than the run was started for.
  LateFirstBeat,  // A node's first heartbeat after a join comes a whole interval after it.
  // With a coordinator:
  ForgetsAStop,     // One node is never told that a round is over.
  HastySilence,     // A node is lost after the time between two pings.
  KeepsWorkers,     // Nodes join the next round beside the workers of the last.
  TwoVerdicts,      // One node is told of another failure than the others.
  EndlessRestarts,  // Restarts are not limited.
  IgnoresSwaps,     // The coordinator does not hear what nodes without a session have made.
  OldStamps,        // The coordinator does not show these that the others live.
  MixesGroups,      // All nodes say that they are in one group.
};

std::string_view to_string(Broken broken);

struct Options {
  std::uint64_t seed = 0;
  std::optional<std::int64_t> nodes = {};
  std::optional<std::int64_t> steps = {};  // The faults stop after this many steps at the latest.
  std::optional<FaultLevel> faults = {};
  std::optional<std::int64_t> torchrun_nodes = {};
  bool whole_nodes = false;                  // Play runs of agents and workers;
  bool coordinator = false;                  // or runs with a coordinator;
  std::optional<std::int64_t> segment = {};  // in them only whole groups are let in. 0: anybody.
  Broken broken = Broken::Nothing;
};

inline constexpr std::int64_t kMostNodes = 64;

// The command that runs this again, with its trace.
std::string replay_line(const Options& options);

// Fails if this cannot be run, and says why.
Result<void> validate(const Options& options);

// Both ends are in.
struct SeedRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

// "A..B", or "A" for one seed.
Result<SeedRange> parse_seeds(std::string_view text);
Result<FaultLevel> parse_faults(std::string_view text);
Result<Broken> parse_broken(std::string_view text);

}  // namespace regroup::sim
